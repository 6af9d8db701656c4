"""The store engine on SQLite. All SQL of stores is in this package."""
