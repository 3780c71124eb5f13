"""Which pattern of bias an identity has."""
