"""The HTTP faces: pipelines, messages, webhooks, live logs, health, and the console."""
