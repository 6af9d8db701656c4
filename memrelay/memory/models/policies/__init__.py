"""Policies: what may enter a store."""
