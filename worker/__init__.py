"""Owns pipelines: takes messages off the bus, runs the plan, commits, publishes, acknowledges,
recovers."""
