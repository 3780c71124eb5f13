"""Rules, verdicts, and the sentences that explain them."""
