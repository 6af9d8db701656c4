"""Requests to other services: which addresses they may reach, and the client that makes them."""
