"""Robutler's memory over its own REST paths."""
