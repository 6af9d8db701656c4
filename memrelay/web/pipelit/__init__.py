"""Pipelit's agent memory over its own REST paths."""
