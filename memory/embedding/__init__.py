"""Embedders: from texts to vectors. Loaded when the first is wanted, never at start."""
