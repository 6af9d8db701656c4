"""Reads messages for a worker: input streams, subscriptions and timers."""
