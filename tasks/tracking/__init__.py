"""MLflow runs of an evaluation, which a resumed evaluation reuses."""
