"""Schedules and processes that run flows, and the included evaluation files."""
