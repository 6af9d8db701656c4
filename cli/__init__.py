"""The front door: the command line, its settings and its logs, and the place where the parts are
put together."""
