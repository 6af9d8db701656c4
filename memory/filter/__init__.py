"""The filter language (docs/filters.md): JSON in, checked, and a tree out; what SQL becomes of it
stands in memory/sqlite."""
