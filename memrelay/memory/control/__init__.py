"""The control plane: deployed bundles, keys, sessions and dead letters in system.db."""
