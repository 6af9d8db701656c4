"""Search quality and speed on public data sets (docs/recall.md)."""
