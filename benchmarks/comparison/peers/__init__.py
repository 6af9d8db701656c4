"""One file per peer. Each imports its packages at the top and runs in a separate environment."""
