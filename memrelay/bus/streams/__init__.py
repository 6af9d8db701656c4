"""Streams: the inputs of pipelines and the logs of swarms."""
