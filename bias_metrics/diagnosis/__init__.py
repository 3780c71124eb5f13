"""Which pattern of bias an identity shows."""
