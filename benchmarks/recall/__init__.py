"""Search quality and speed on public data sets (docs/search-quality.md)."""
