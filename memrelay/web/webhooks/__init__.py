"""Webhooks: their bodies, and the senders that Memrelay knows."""
