"""Protocols of served classifiers: presets, requests in JSON, limits and costs."""
