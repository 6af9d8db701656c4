"""The built-in blocks, one file each, and what every block uses. See docs/blocks.md."""
