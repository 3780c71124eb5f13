"""Orders of steps: `train`, `evaluate` and `nightly`, as Prefect flows."""
