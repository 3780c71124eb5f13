"""The ledger of a model: what was promoted, in a chain of signed entries."""
