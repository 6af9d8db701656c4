"""The operations on one store file, without bus and server."""
