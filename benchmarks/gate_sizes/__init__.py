"""What policies decide on sets of the sizes that teams have, by simulation."""
