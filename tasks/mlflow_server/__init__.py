"""The only entry point to MLflow: runs, registered versions, model folders."""
