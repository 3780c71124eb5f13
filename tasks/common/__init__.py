"""What every step shares: errors, files, settings, progress, Prefect's task."""
