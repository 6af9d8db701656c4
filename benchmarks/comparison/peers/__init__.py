"""One file per peer. Each imports its packages at the top and runs in an environment of its own."""
