"""`memrelay bus`: the embedded server alone, for workers and web servers that run beside it."""

from memrelay.cli.composition import fail, settled
from memrelay.cli.options import JsonLog
from memrelay.cli.process import serve


def bus(*, as_json: JsonLog = False) -> None:
    """Run the embedded bus alone."""
    if settled(lambda settings: settings.bus.url):
        fail(
            "another bus is configured (bus.url), so there is none to run; start `memrelay worker` and `memrelay web`"
        )
    serve(with_bus=True, as_json=as_json)
