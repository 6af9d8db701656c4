"""What is remembered and how it is found: records, search, the operations on them and the engines
that keep them."""
