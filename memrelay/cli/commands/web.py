"""`memrelay web`: the HTTP server, on the configured bus or the running embedded one."""

from memrelay.cli.options import JsonLog
from memrelay.cli.process import serve
from memrelay.cli.web_server import make_web


def web(*, as_json: JsonLog = False) -> None:
    """Serve HTTP: webhooks, the API and the console at /."""
    serve(make_web, as_json=as_json)
