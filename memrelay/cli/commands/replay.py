"""`memrelay replay PIPELINE`: run kept inputs again."""

import time
from collections.abc import Callable
from dataclasses import replace as change
from functools import partial
from typing import Annotated, Any

import typer

from memrelay.bus.request import NewCall, Requester
from memrelay.cli.composition import bus_address, fail, find_uid, run
from memrelay.cli.operation_command import ACTOR, AnswerTimeout, encode_input
from memrelay.cli.options import JsonAnyway, Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, report_progress
from memrelay.memory.operations import all_operations
from memrelay.web.api.input_replay import (
    InvalidReplay,
    NotRemembered,
    ReplayRequest,
    replay_page,
)

Since = Annotated[
    str, typer.Option(metavar="TIME", help="Only inputs that arrived at this time or later.")
]
Until = Annotated[str, typer.Option(metavar="TIME", help="Only inputs before this time.")]
Filter = Annotated[
    str,
    typer.Option(
        metavar="JMESPATH",
        help="Only inputs for which this is true: contains(text, 'invoice').",
    ),
]
OneAgent = Annotated[
    str, typer.Option(metavar="ALIAS", help="Only inputs that were sent to this agent alone.")
]
AsNew = Annotated[
    bool, typer.Option("--as-new", help="Run them as new inputs, with all effects again.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count the inputs.")]
Key = Annotated[
    str,
    typer.Option(
        metavar="KEY", help="Key of the replay: no input runs twice as new with the same key."
    ),
]


def replay(
    pipeline: Pipeline,
    *,
    since: Since = "",
    until: Until = "",
    filter: Filter = "",
    agent: OneAgent = "",
    as_new: AsNew = False,
    dry_run: DryRun = False,
    key: Key = "",
    wait: AnswerTimeout = 30.0,
    as_json: JsonAnyway = False,
) -> None:
    """Run the inputs again that the pipeline keeps (`inputs_days` in its bundle).

    By default they run under their idempotency keys, so that effects do not happen twice. Prints
    the progress after each page. After an interruption, `--key` with the printed key continues.
    """
    # The same end for all passes.
    until = until or str(time.time_ns() // 1_000_000)
    wanted = ReplayRequest(since, until, agent, filter, as_new, key=key)

    async def command(settings: Settings) -> None:
        uid = await find_uid(settings, pipeline)
        async with Requester(bus_address(settings)) as requester:
            pages = Replay(uid, requester, wait)
            try:
                # First, so that nothing runs if one of them cannot.
                total = await pages.run(change(wanted, dry_run=True, limit=1000))
                if dry_run:
                    print_json({"pipeline_uid": uid, "inputs": total})
                    return
                await pages.run(wanted, partial(_print_progress, uid, total))
            except (InvalidReplay, NotRemembered) as error:
                fail(f"{error}{' (--as-new)' if isinstance(error, NotRemembered) else ''}")

    run(command)


def _print_progress(uid: str, total: int, key: str, replayed: int) -> None:
    line = {"pipeline_uid": uid, "key": key, "replayed": replayed, "of": total}
    report_progress(partial(print_json, line))


class Replay:
    """Runs all pages of a replay, and waits up to `wait_s` seconds for each list of inputs."""

    def __init__(self, uid: str, requester: Requester, wait_s: float) -> None:
        self._uid, self._requester, self._wait_s = uid, requester, wait_s

    async def run(
        self, wanted: ReplayRequest, progress: Callable[[str, int], None] = lambda *_: None
    ) -> int:
        """Return the number of inputs. `progress` gets the key and the number after each page."""
        count = 0
        while True:
            page = await replay_page(
                self._uid, wanted, self._list_inputs, self._requester.ingress.append_all
            )
            count += page.replayed
            progress(page.key, count)
            if page.next_cursor is None:
                return count
            wanted = change(wanted, key=page.key, cursor=page.next_cursor)

    async def _list_inputs(self, given: dict[str, Any]) -> dict[str, Any]:
        data = encode_input(all_operations()["inputs.list"], given)
        call = NewCall(self._uid, "inputs.list", data, False, "", ACTOR)
        answer = await self._requester.call(call, self._wait_s)
        if "error" in answer:
            fail(answer["error"]["detail"])
        output: dict[str, Any] = answer["output"]
        return output
