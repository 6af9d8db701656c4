"""Runs batches of messages in the stores of a group of pipelines."""
