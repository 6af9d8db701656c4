"""Terminal input and output: safe text, tables, and signals."""
