"""`memrelay recipes pull` and `push`: copy recipes between a pipeline and a folder of files."""

from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from memrelay.bus.request import NewCall, Requester
from memrelay.cli.commands.export import write_atomically
from memrelay.cli.composition import bus_address, fail, find_uid, run
from memrelay.cli.operation_command import ACTOR, call_operation
from memrelay.cli.options import JsonAnyway, Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json

# Codebolt's folder of definitions within a project.
SUBFOLDER = Path(".codebolt") / "PersistentMemory"
WAIT_S = 30.0
Folder = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER", help="The project. Files are in .codebolt/PersistentMemory below it."
    ),
]


def pull(pipeline: Pipeline, folder: Folder, *, as_json: JsonAnyway = False) -> None:
    """Write each recipe of a pipeline to a file. Other files stay."""

    async def command(settings: Settings) -> None:
        call = NewCall("", "recipes.list", b"{}", mutates=False, actor=ACTOR)
        output = await call_operation(settings, pipeline, call, WAIT_S)
        if not folder.is_dir():
            fail(f"{folder} is not a folder; create it, or name another one")
        path = folder / SUBFOLDER
        path.mkdir(parents=True, exist_ok=True)
        for recipe in output["items"]:
            _write(path / f"{recipe['id']}.json", recipe["definition"])
        print_json({"folder": str(path), "recipes": [one["id"] for one in output["items"]]})

    run(command)


def push(pipeline: Pipeline, folder: Folder, *, as_json: JsonAnyway = False) -> None:
    """Store the definitions in a folder, all or none. Other recipes of the pipeline stay."""

    async def command(settings: Settings) -> None:
        definitions = _read_all(folder / SUBFOLDER)
        data = orjson.dumps({"definitions": list(definitions.values())})
        call = NewCall("", "recipes.store", data, mutates=True, actor=ACTOR)
        print_json(await _store(settings, pipeline, call, list(definitions)))

    run(command)


recipes = [pull, push]


def _write(path: Path, definition: dict[str, Any]) -> None:
    """Replace a file, unless it has this definition already."""
    text = orjson.dumps(definition, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    if not path.is_file() or path.read_bytes() != text:
        write_atomically(path, lambda file: file.write(text))


def _read_all(place: Path) -> dict[Path, dict[str, Any]]:
    """Return the definitions by file. End the command with the faults of all files."""
    definitions, faults = dict[Path, dict[str, Any]](), list[str]()
    for path in sorted(place.glob("[!.]*.json")):
        try:
            definition = orjson.loads(path.read_bytes())
        except orjson.JSONDecodeError as error:
            faults.append(f"{path}: invalid JSON: {error}")
            continue
        if not isinstance(definition, dict):
            faults.append(f"{path}: a definition is a JSON object")
        elif definition.get("id", path.stem) != path.stem:
            faults.append(
                f"{path}: the id is {definition['id']!r}; it must be the name of the file"
            )
        else:
            definitions[path] = definition
    if faults:
        fail("\n".join(["nothing was stored", *faults]))
    if not definitions:
        fail(f"{place} has no definition; each file is named after its id: deploys.json")
    return definitions


async def _store(
    settings: Settings, pipeline: str, call: NewCall, paths: list[Path]
) -> dict[str, Any]:
    """Return the answer of recipes.store. Faults name the file of the definition."""
    uid = await find_uid(settings, pipeline)
    async with Requester(bus_address(settings)) as requester:
        answer = await requester.call(call.at(uid), WAIT_S)
    if "error" not in answer:
        output: dict[str, Any] = answer["output"]
        return output
    error, faults = answer["error"], list[str]()
    for fault in error.get("faults", ()):
        _, _, number, *rest = fault["path"].split("/")
        pointer = "".join(f"/{part}" for part in rest)
        faults.append(f"{paths[int(number)]}: {pointer}: {fault['message']}")
    fail("\n".join([f"nothing was stored: {error['detail']}", *faults]))
