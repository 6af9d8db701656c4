"""`memrelay worker`: serves the deployed pipelines, on the configured bus or on one that it starts."""
from cli.process import serve


def worker() -> None:
    """Serve the deployed pipelines until it is told to end (SIGTERM, Ctrl-C)."""
    serve()
