"""Embedders, which turn texts into vectors. They are loaded at first use, never at start."""
