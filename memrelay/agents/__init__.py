"""Agents and their memory for LangGraph: checkpoints, a store, and the turns of the agent block."""
