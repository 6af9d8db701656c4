"""Errands: requests of blocks that wait, executed in a thread of their own."""
