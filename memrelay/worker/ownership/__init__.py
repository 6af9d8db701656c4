"""Decides which worker may write: lock files of a host, and leases on the bus."""
