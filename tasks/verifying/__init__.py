"""Verification of a verdict, a version and its ledger."""
