"""What is handed to others: the rows and text of transparency reports, cards, bundles."""
