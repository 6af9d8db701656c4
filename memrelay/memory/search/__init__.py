"""Ranked search, used by the modes `hybrid` and `semantic`, and its explanations.

Most modules need numpy. A store imports them at its first ranked search.
"""
