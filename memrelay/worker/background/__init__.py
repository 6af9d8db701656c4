"""Tasks that run in the background of the batches of a group."""
