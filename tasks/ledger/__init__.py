"""The ledger of a model: its promotions as a chain of signed entries."""
