"""Codebolt's persistent memory, its sources and context assembly over their own REST paths."""
