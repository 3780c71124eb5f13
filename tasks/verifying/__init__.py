"""Whether a verdict, a version and its ledger still hold."""
