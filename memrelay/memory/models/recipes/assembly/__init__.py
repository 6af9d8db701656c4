"""Context assembly and its rules."""
