"""The OpenAPI description of all routes."""
