"""`memrelay bus`: the embedded server alone, for separate workers and web servers."""

from memrelay.cli.composition import fail, run_with_settings
from memrelay.cli.options import JsonLog
from memrelay.cli.process import serve


def bus(*, as_json: JsonLog = False) -> None:
    """Run only the embedded bus."""
    if run_with_settings(lambda settings: settings.bus.url):
        fail(
            "bus.url names another bus, so the embedded one is not needed; start `memrelay worker` "
            "and `memrelay web`"
        )
    serve(with_bus=True, as_json=as_json)
