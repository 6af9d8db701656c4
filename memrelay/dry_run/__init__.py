"""Tries a message through a bundle that is not deployed, for the pipeline editor.

`child.py` is a program: the web server starts it for one message. It runs the message with the code
of a worker on empty stores, or on copies. It has limits, no secrets and no network, and ends after
its report. Nothing stays.
"""
