"""MLflow runs of an evaluation, found again when it is resumed."""
