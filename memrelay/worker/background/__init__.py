"""Tasks that run beside the batches of a group."""
