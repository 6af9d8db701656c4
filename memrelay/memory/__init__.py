"""Records, search over them, the operations of the memory models and the store engines."""
