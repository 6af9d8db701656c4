"""`memrelay web`: webhooks, the API and the page, on the configured bus or the embedded one that
runs."""

from memrelay.cli.options import JsonLog
from memrelay.cli.process import serve
from memrelay.cli.web_server import make_web


def web(*, as_json: JsonLog = False) -> None:
    """Serve HTTP: webhooks, the API and the page at /."""
    serve(make_web, as_json=as_json)
