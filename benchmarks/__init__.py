"""Measurements, beside fixed programs that do the same job in the same run."""
