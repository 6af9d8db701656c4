"""The web server: startup, middlewares, limits, and error responses."""
