"""Errors, files, settings, progress and the Prefect task that all steps share."""
