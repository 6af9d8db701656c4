"""The name and the limit of the operation that imports lines, for callers that do not load it."""

NAME = "records.import"
MAX_LINES = 1000
"""Lines per call."""
