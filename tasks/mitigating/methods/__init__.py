"""Methods that mitigate bias before training."""
