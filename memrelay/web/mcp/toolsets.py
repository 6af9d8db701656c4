"""The names of the toolsets. Their tools are in `tools/toolsets.py`, which loads operations."""

MEMORY, GRAPH, FILES = "memory", "graph", "files"
NAMES = (MEMORY, GRAPH, FILES)
