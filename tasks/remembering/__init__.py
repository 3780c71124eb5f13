"""A memory of nights: what was measured each night, and what changed since then."""
