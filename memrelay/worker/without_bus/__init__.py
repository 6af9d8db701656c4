"""Runs batches on stores without a bus, for rehearsals and tests."""
