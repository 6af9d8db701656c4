"""Recipes: declared retrieval pipelines, the sources that they read, and context assembly."""
