"""The operations of memory: one module each, found by name and used by every interface."""
