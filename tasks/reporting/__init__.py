"""Output for people: report, figures, model card, JUnit file, notifications."""
