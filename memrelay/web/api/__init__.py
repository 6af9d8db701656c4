"""Memrelay's JSON API: pipelines, messages, operations, webhooks, dead letters, and health."""
