"""Runs kept inputs again under another bundle, on copies of the stores, and compares the results.

Nothing on the path of a message imports this package. A worker loads it with the first rehearsal.
"""
