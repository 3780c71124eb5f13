"""The metrics of Borkan et al. 2019 and their aggregates."""
