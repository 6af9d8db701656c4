"""Memory for agents on a message bus."""
