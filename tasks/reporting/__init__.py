"""What people read: report, figures, model card, JUnit file, notifications."""
