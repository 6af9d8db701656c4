"""Leases, heartbeats and fencing of workers."""
