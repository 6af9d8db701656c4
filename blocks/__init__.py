"""Blocks: one file each, from a message to a message. docs/blocks.md shows how to add one."""
