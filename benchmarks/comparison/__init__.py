"""Memrelay next to other memories, in one run on one machine (docs/comparison.md)."""
