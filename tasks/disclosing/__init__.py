"""Transparency reports: the filing, the numbers, the rows and texts of the form."""
