"""The servers of deployments/compose.yaml, started on this machine without Docker."""
