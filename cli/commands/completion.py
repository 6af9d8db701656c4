"""`memrelay completion SHELL`: the script by which a shell completes commands, options and pipelines."""
from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]  # typer's, not named in an __all__

from cli.options import Json
from cli.output import print_json, print_line


class Shell(StrEnum):
    """The shells that are served."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


Which = Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_default=False)]


def completion(context: typer.Context, shell: Which, *, as_json: Json = False) -> None:
    """Print what makes a shell complete commands and pipelines; put eval "$(memrelay completion bash)" into ~/.bashrc."""
    name = context.find_root().info_name or ""
    script = get_completion_script(prog_name=name, complete_var=f"_{name.upper()}_COMPLETE", shell=shell.value)
    if as_json:
        print_json({"shell": shell.value, "script": script})
        return
    for line in script.splitlines():
        print_line(line)
