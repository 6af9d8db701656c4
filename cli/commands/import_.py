"""`memrelay import PIPELINE FILE`: import exported records through the owner of a pipeline."""

import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from memrelay.bus.request import NewCall, Requester
from memrelay.cli.composition import (
    bus_address,
    fail,
    find_pipeline,
    make_seal_keys,
    open_catalog,
    run,
)
from memrelay.cli.operation_command import ACTOR, AnswerTimeout
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.memory.files.export import read_export, verify_export
from memrelay.memory.files.uid_placeholder import UID
from memrelay.memory.operations.records_import import MOST
from memrelay.memory.sealed_import import seal_line

NAME = "records.import"
# A call holds this fraction of bus.max_message_bytes in characters of at most four bytes.
SHARE = 5
ExportFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="A file from `memrelay export --records`.", show_default=False
    ),
]
Store = Annotated[
    str,
    typer.Option(
        metavar="MEMORY_ID",
        help="Import into this store. By default into the stores of the same names.",
        show_default=False,
    ),
]
Replace = Annotated[bool, typer.Option("--replace", help="Replace existing records that differ.")]


def import_(
    pipeline: Pipeline,
    file: ExportFile,
    *,
    store: Store = "",
    replace: Replace = False,
    wait: AnswerTimeout = 60.0,
    as_json: Json = False,
) -> None:
    """Import an export into a served pipeline: records with guids, times, histories and memories.

    The file is checked first. Identical records are skipped, so an import can be repeated. A record
    that differs ends the import, unless --replace is given. With memory.seal_keys, internal values
    are sealed.
    """

    async def command(settings: Settings) -> Counter[str]:
        verify_export(file)
        async with open_catalog(settings) as catalog:
            uid = (await find_pipeline(catalog, pipeline)).uid
        total, keys = Counter[str](added=0, same=0, replaced=0), make_seal_keys(settings)
        sealer = await keys.load()
        # Sealed here, since a line may be sent in pieces.
        sealed = (
            (name, line if sealer is None else seal_line(sealer, uid, line))
            for name, line in read_export(file)
        )
        async with Requester(bus_address(settings)) as requester:
            for name, given in _calls(sealed, settings.bus.max_message_bytes // SHARE):
                data = orjson.dumps(given | {"replace": replace})
                data = await keys.seal_input(uid, NAME, data)
                target = store or name.replace(UID, uid)
                answer = await requester.call(NewCall(uid, NAME, data, True, target, ACTOR), wait)
                if "error" in answer:
                    fail(f"{answer['error']['detail']}. Imported before: {_summary(total)}")
                total.update(answer["output"])
        return total

    total = run(command)
    if as_json:
        print_json(dict(total))
    else:
        print_line(_summary(total))


def _summary(total: Counter[str]) -> str:
    return f"{total['added']} added, {total['same']} unchanged, {total['replaced']} replaced"


def _calls(
    lines: Iterable[tuple[str, str]], max_characters: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (store, input) per call. A line that is too long for one call is sent in pieces."""
    page: list[str] = []
    size, store = 0, ""
    for name, line in lines:
        is_full = size + len(line) > max_characters or len(page) == MOST
        if page and (name != store or is_full):
            yield store, {"lines": page}
            page, size = [], 0
        store = name
        if len(line) <= max_characters:
            page.append(line)
            size += len(line)
            continue
        # The token keeps the pieces of concurrent imports separate.
        rest, token = (len(line) - 1) // max_characters * max_characters, secrets.token_hex(8)
        for at in range(0, rest, max_characters):
            yield store, {"piece": line[at : at + max_characters], "at": at, "of": token}
        yield store, {"lines": [line[rest:]], "at": rest, "of": token}
    if page:
        yield store, {"lines": page}
