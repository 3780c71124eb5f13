"""Rules, verdicts, and the words that explain them."""
