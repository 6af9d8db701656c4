"""The command line: commands, settings, logs, and the composition root."""
