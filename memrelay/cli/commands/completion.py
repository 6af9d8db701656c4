"""`memrelay completion SHELL`: the completion script of a shell."""

from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]  # not in an __all__

from memrelay.cli.options import Json
from memrelay.cli.terminal.output import print_json, print_line

SHELLS = "bash", "zsh", "fish"


def _validate_shell(shell: str) -> str:
    if shell not in SHELLS:
        raise typer.BadParameter(f"{shell!r} is not supported; use {', '.join(SHELLS)}")
    return shell


Shell = Annotated[
    str,
    typer.Argument(
        metavar="SHELL",
        callback=_validate_shell,
        help="bash, zsh or fish.",
        autocompletion=lambda: list(SHELLS),
    ),
]


def completion(context: typer.Context, shell: Shell, *, as_json: Json = False) -> None:
    """Print the completion script of a shell.

    For bash, add this line to ~/.bashrc: eval "$(memrelay completion bash)"
    """
    name = context.find_root().info_name or ""
    script = get_completion_script(
        prog_name=name, complete_var=f"_{name.upper()}_COMPLETE", shell=shell
    )
    if as_json:
        print_json({"shell": shell, "script": script})
        return
    for line in script.splitlines():
        print_line(line)
