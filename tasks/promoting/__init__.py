"""Move `champion` in a transaction, record it in the ledger, verify its evidence."""
