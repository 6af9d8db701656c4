"""The journal of a store in PostgreSQL: the file of the store is a local copy of it."""
