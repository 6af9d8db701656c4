"""The users of agents: look-ups, identifiers, contexts, merges and erasures."""
