"""The memory of agents: facts, episodes, procedures, users and checkpoints."""
