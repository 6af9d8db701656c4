"""`memrelay completion SHELL`: the script by which a shell completes commands, options and
pipelines."""

from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]  # typer's, not named in an __all__

from memrelay.cli.options import Json
from memrelay.cli.terminal.output import print_json, print_line

SHELLS = "bash", "zsh", "fish"


def _known(shell: str) -> str:
    if shell not in SHELLS:
        raise typer.BadParameter(f"{shell!r} is none of {', '.join(SHELLS)}")
    return shell


Which = Annotated[
    str,
    typer.Argument(
        metavar="SHELL",
        callback=_known,
        help="bash, zsh or fish.",
        show_default=False,
        autocompletion=lambda: list(SHELLS),
    ),
]


def completion(context: typer.Context, shell: Which, *, as_json: Json = False) -> None:
    """Print what makes a shell complete commands and pipelines; put eval "$(memrelay completion
    bash)" into ~/.bashrc."""
    name = context.find_root().info_name or ""
    script = get_completion_script(
        prog_name=name, complete_var=f"_{name.upper()}_COMPLETE", shell=shell
    )
    if as_json:
        print_json({"shell": shell, "script": script})
        return
    for line in script.splitlines():
        print_line(line)
