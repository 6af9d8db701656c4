"""`memrelay bus`: the embedded server alone, for separate workers and web servers."""

from typing import Annotated

import typer

from memrelay.cli.composition import bus_address, fail, run_with_settings
from memrelay.cli.options import JsonLog
from memrelay.cli.process import serve
from memrelay.cli.terminal.output import print_line

Url = Annotated[
    bool, typer.Option("--url", help="Print the URL for Redis clients, with its password, and end.")
]


def bus(*, url: Url = False, as_json: JsonLog = False) -> None:
    """Run only the embedded bus."""
    if url:
        print_line(run_with_settings(lambda settings: bus_address(settings).make_url()))
        return
    if run_with_settings(lambda settings: settings.bus.url):
        fail(
            "bus.url names another bus, so the embedded one is not needed; start `memrelay worker` "
            "and `memrelay web`"
        )
    serve(with_bus=True, as_json=as_json)
