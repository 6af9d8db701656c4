"""Keyed items in shared stores: Robutler's model."""
