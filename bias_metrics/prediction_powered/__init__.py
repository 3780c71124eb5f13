"""Human identity labels on a random part of the rows, helped by term matching on all of them."""
