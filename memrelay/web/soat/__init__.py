"""Named memories with SOAT's paths and JSON shapes, on top of the same operations."""
