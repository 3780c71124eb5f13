"""What a store holds, how large it is, and what of it can be removed."""
