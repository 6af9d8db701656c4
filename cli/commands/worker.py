"""`memrelay worker`: serves the deployed pipelines, on the configured bus or the embedded one that
runs."""

from memrelay.cli.options import JsonLog
from memrelay.cli.process import serve
from memrelay.cli.services import make_worker


def worker(*, as_json: JsonLog = False) -> None:
    """Serve the deployed pipelines until it is told to end (SIGTERM, Ctrl-C)."""
    serve(make_worker, as_json=as_json)
