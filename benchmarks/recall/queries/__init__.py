"""Queries that the data sets lack: nonsense, and other forms of their questions."""
