"""Methods that mitigate bias: one file each."""
