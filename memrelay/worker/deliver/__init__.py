"""Sends the results of batches to the bus."""
