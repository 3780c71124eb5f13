"""Verification of verdicts, model versions and ledgers."""
