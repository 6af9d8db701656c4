"""`memrelay new block|pipeline NAME`: a folder with a block, a bundle and tests."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from memrelay.cli.composition import fail, run_with_settings
from memrelay.cli.new_project import InvalidName, create_project, find_program
from memrelay.cli.options import Json
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The new folder. Lower-case letters, digits and _, like tidy_up."
    ),
]
NEXT = """\
Created {files}.

  cd {name}
  {python} -m pytest               # needs pytest
  {program} check bundle.json
  {program} up --reload

and in a second terminal in this folder:

  {program} deploy bundle.json --uid {name}
  {program} say {name} "{text}"
"""


def block(name: Name, *, as_json: Json = False) -> None:
    """Create a folder with a block, its test, and a pipeline that tries it."""
    _create("block", name, "the kettle is on", as_json=as_json)


def pipeline(name: Name, *, as_json: Json = False) -> None:
    """Create a folder with a pipeline, a block of its own, and their tests."""
    _create("pipeline", name, "The meeting is at 3pm", as_json=as_json)


def _create(kind: str, name: str, text: str, *, as_json: bool) -> None:
    def command(_: Settings) -> list[Path]:
        try:
            return create_project(kind, name, Path())
        except InvalidName as error:
            fail(str(error))
        except FileExistsError:
            fail(f"{name} exists already, and nothing is overwritten: choose another name")

    files = run_with_settings(command)
    if as_json:
        print_json({"files": [str(file) for file in files]})
        return
    folder = Path(name)
    lines = NEXT.format(
        files=", ".join(map(str, files)),
        name=name,
        python=shlex.quote(find_program("python", folder)),
        program=shlex.quote(find_program("memrelay", folder)),
        text=text,
    )
    for line in lines.splitlines():
        print_line(line)


new = [block, pipeline]
