"""Sources of evaluation sets, and the conversion of their rows to frozen sets."""
