"""How well, and how fast, what was asked for is found: on data that others have made
(docs/search-quality.md)."""
