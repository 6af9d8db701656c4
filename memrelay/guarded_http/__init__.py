"""The one way out: every outgoing request goes through this client, which checks its address."""
