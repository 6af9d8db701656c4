"""Check definitions of recipes."""
