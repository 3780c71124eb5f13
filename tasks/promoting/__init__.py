"""Move `champion` in a transaction, keep the ledger, verify what it rests on."""
