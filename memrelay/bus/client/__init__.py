"""Connections to the Redis or Valkey server."""
