"""Ranking of our own: what `mode: hybrid` finds.

It needs numpy, but for stems.py: nothing imports the rest but a store that is asked for it.
"""
