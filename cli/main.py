"""`memrelay`: the command line. Only the command that is called is loaded, so that help and
completion are quick."""

import importlib
import io
import keyword
import os
import sys
from typing import Annotated, Any, cast

import typer
from typer.completion import completion_init  # type: ignore[attr-defined]  # typer's, not named in an __all__
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from memrelay.cli.terminal.ending import end_orderly
from memrelay.cli.terminal.output import escaped

# A command that says how a text is quoted, where a shell has taken it apart, or it was taken for
# an option.

UsageError = cast(
    "type[Exception]", typer.BadParameter.__mro__[1]
)  # typer has no name for what its errors have in common
TEXTS = ("text", "content", "query", "name")  # arguments of several words


class Quoting(TyperCommand):
    """Its arguments are read as typer reads them."""

    allow_extra_args = True  # which are told here

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """typer's call."""
        try:
            rest = super().parse_args(ctx, args)
        except UsageError as error:
            option = getattr(error, "option_name", None) or "--"
            if option.startswith("--") or not self._takes_text():
                raise
            ctx.fail(
                f'No such option: {escaped(option)}. A text that begins with - comes last, behind --: -- "- milk"'
            )
        if rest and not ctx.resilient_parsing:
            remedy = (
                '. A text of several words stands in quotes: "The meeting is at 3pm"'
                if self._takes_text()
                else ""
            )
            ctx.fail(f"Got unexpected extra argument(s) ({escaped(' '.join(rest))}){remedy}")
        return rest

    def _takes_text(self) -> bool:
        return any(
            parameter.param_type_name == "argument" and parameter.name in TEXTS
            for parameter in self.params
        )


NAME = "memrelay"
COMMANDS = {
    "up": "Start the bus, a worker and the web server, with the sample pipeline to try.",
    "worker": "Serve the deployed pipelines until it is told to end.",
    "web": "Serve HTTP: webhooks, the API and the page at /.",
    "bus": "Run the embedded bus alone.",
    "blocks": "List the blocks that bundles can name, and where they come from.",
    "deploy": "Check a bundle and put it in service.",
    "check": "Check a bundle without deploying it.",
    "export": "Print the bundle of a pipeline in service, or all that it remembers.",
    "import": "Take in what a pipeline remembered, from the file of an export.",
    "rollback": "Put an earlier version of a pipeline in service again.",
    "versions": "List every version that a pipeline had.",
    "ls": "List the pipelines in service.",
    "rm": "Take a pipeline out of service.",
    "chat": "Talk to a pipeline at a prompt.",
    "say": "Say something on a swarm and print the results.",
    "send": "Say something on a swarm, or to one agent, and wait for nothing.",
    "records": "Create, find, change and delete what a pipeline remembers.",
    "memories": "Create, find, change and delete named memories.",
    "entries": "Write, find, change and delete what a named memory holds.",
    "knowledge": "Search named memories, and get what an agent is to know.",
    "erase": "Take records away for good, and whatever quotes them.",
    "search": "Find what a pipeline remembers, and why.",
    "tail": "Print what is said on a pipeline's swarms.",
    "backup": "Copy stores and bundles to a folder, while they are used.",
    "restore": "Put a backup back in place.",
    "scrub": "Read everything that is stored, and look for damage.",
    "salvage": "Make a damaged store usable, with what can still be read of it.",
    "reindex": "Make the vectors of a pipeline anew, while it is searched.",
    "status": "Say what runs: workers, pipelines, lag, dead letters, durability.",
    "dlq": "Dead letters: list, show, replay and drop what could not be run.",
    "doctor": "Look for what is wrong, and say what to do about it.",
    "keys": "Make, list and revoke the keys that HTTP asks for.",
    "acl": "Print the server's ACL line that confines a client to one pipeline.",
    "completion": "Print what makes a shell complete commands and pipelines.",
}
MODULES = dict.fromkeys(("records", "memories", "entries", "knowledge"), "operations")
# Plain help: rich's boxes would cost a tenth of a second each time.
PLAIN: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}


class Commands(TyperGroup):
    """Knows each command by name and summary, and loads the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """typer's call, also for completion: (name, command, its arguments); a name that is none
        gets a suggestion."""
        name, known, rest = super().resolve_command(ctx, args)
        return name, None if known is None or name is None else _load(name), rest


def main() -> None:
    """The entry point of `memrelay`."""
    _open_closed_streams()
    end_orderly()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # what a terminal's encoding lacks is no reason to end
    completion_init()
    try:
        make_app()(prog_name=NAME)
    except (
        OSError
    ) as error:  # what no command tells: help that cannot be written, as where a disk is full
        sys.exit(f"{NAME}: {error.filename or 'stdout'}: {error.strerror}")


def _open_closed_streams() -> None:
    """What a caller has closed leads nowhere, so that no file or socket of ours takes its
    number."""
    for name, mode in (
        ("stdin", "r"),
        ("stdout", "w"),
        ("stderr", "w"),
    ):  # the lowest number that is free is given first
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # open for as long as the process


def make_app() -> typer.Typer:
    """The application; its commands have a name and a summary until they are called."""
    app = typer.Typer(
        name=NAME,
        cls=Commands,
        help="Memory for agents, on a message bus.",
        no_args_is_help=True,
        **PLAIN,
    )
    app.callback()(_options)
    for name, summary in COMMANDS.items():
        app.command(name, short_help=summary)(_not_called)
    return app


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(
            f"{NAME} {importlib.import_module('importlib.metadata').version(NAME)}"
        )  # it is slow to load
        raise typer.Exit


def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Of the program itself."""


def _load(name: str) -> Any:
    """The command, from what has its name in the file of its name: a function, or a list of them
    for a group."""
    word = f"{name}_" if keyword.iskeyword(name) else name
    found = getattr(
        importlib.import_module(f"memrelay.cli.commands.{MODULES.get(name, word)}"), word
    )
    if not isinstance(found, list):
        app = typer.Typer(**PLAIN)
        app.command(name, cls=Quoting)(found)
        return get_command(app)
    group = typer.Typer(name=name, help=COMMANDS[name], no_args_is_help=True, **PLAIN)
    group.callback()(_not_called)  # a group, even of one command
    for function in found:
        group.command(function.__name__, cls=Quoting)(function)
    return get_command(group)


def _not_called() -> None:
    """Stands for a command that is not loaded."""


if __name__ == "__main__":
    main()
