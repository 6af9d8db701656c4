"""`memrelay worker`: a worker, on the configured bus or the running embedded one."""

from memrelay.cli.options import JsonLog
from memrelay.cli.process import serve
from memrelay.cli.services import make_worker


def worker(*, as_json: JsonLog = False) -> None:
    """Serve the deployed pipelines until SIGTERM or Ctrl-C."""
    serve(make_worker, as_json=as_json)
