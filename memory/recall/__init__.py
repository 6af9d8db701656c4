"""Ranking of our own: what `mode: hybrid` finds. It needs numpy: nothing imports it but a store that is asked for it."""
