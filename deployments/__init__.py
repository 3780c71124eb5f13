"""When and where flows run: schedules, evaluation files, policies."""
