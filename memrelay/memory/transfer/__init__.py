"""Whole files: backup, restore, export, import and salvage of stores."""

# The operation that imports lines, and the most lines of a call. Callers do not load it.
IMPORT = "records.import"
MAX_LINES = 1000
