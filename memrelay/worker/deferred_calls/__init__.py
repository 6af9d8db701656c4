"""Deferred calls: requests of blocks that wait, executed in a separate thread."""
