"""The `memory` tool of agents: three generations of Robutler's arguments, and Anthropic's tool."""
