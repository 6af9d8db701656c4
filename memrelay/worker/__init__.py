"""Owns pipelines: reads messages from the bus, runs them, commits, publishes and acknowledges."""
