"""The memory models: each is one folder with a manifest, and the engine knows none by name."""
