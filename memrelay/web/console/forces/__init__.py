"""Places the entities of a graph. It is loaded with the first picture, because it needs numpy."""
