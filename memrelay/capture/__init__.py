"""Capture: hooks that store the sessions of coding tools as turns (docs/capture.md)."""
