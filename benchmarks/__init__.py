"""Benchmarks that run Memrelay and reference programs in the same run."""
