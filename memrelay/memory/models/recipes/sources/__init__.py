"""Key-value stores and event logs."""
