"""The command line `memrelay`.

Only the called command is imported, so help and completion are fast.
"""

import importlib
import io
import keyword
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, cast

import typer
from typer.completion import completion_init  # type: ignore[attr-defined]  # not in an __all__
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from memrelay.cli.imports import load
from memrelay.cli.terminal import escaped
from memrelay.cli.terminal.interrupts import exit_on_signals
from memrelay.memory.engine.models import list_nouns

# typer does not export the common base class of its usage errors.
UsageError = cast("type[Exception]", typer.BadParameter.__mro__[1])
# Arguments that may hold several words.
TEXTS = ("text", "content", "query", "name", "key", "value", "old_str", "new_str")
NAME = "memrelay"
# The commands by the heading under which the help lists them.
GROUPS = {
    "Run": {
        "up": "Start the bus, a worker and the web server, with a sample pipeline.",
        "worker": "Serve the deployed pipelines.",
        "web": "Serve HTTP: webhooks, the API and the console.",
        "bus": "Run only the embedded bus.",
        "mcp": "Serve an MCP client over stdin and stdout.",
    },
    "Pipelines": {
        "new": "Create a folder with a block or a pipeline, and its test.",
        "deploy": "Check a bundle and activate it.",
        "check": "Check a bundle without deploying it.",
        "test": "Ask golden questions and check what is found.",
        "ls": "List the active pipelines.",
        "rm": "Deactivate a pipeline.",
        "versions": "List all versions of a pipeline.",
        "rehearse": "Run kept inputs under another bundle, and show what would differ.",
        "rollback": "Activate an earlier version of a pipeline again.",
        "blocks": "List the available blocks and their source.",
    },
    "Messages": {
        "chat": "Chat with a pipeline at a prompt.",
        "say": "Send a message to a swarm and print the results.",
        "send": "Send a message to a swarm or an agent without waiting.",
        "tail": "Print the messages on the swarms of a pipeline.",
        "dlq": "List, show, replay and drop dead letters.",
        "replay": "Run kept inputs of a pipeline again.",
        "webhooks": "Show the webhooks of a pipeline, or send a test request to one.",
    },
    "Records": {
        "search": "Search the records of a pipeline and explain the ranking.",
        "export": "Print the active bundle of a pipeline, or its records.",
        "import": "Import the records of an export into a pipeline.",
        "capture": "Capture the sessions of coding tools as turns, and show what was captured.",
        "erase": "Erase records permanently, with every copy of their text.",
        "undo": "Undo the changes of one writer, import, turn or period.",
        "receipt": "Show what an answer was based on, and verify it.",
        "policy": "Try policies on a text, and on the records of a pipeline.",
        "reindex": "Recompute the vectors of a pipeline while it stays searchable.",
        "reseal": "Seal all internal values of a pipeline with the first seal key.",
    },
    "Administration": {
        "status": "Show workers, pipelines, lag, dead letters and durability.",
        "doctor": "Find problems of the installation and show how to fix them.",
        "keys": "Create, list and revoke API keys for HTTP.",
        "acl": "Print the ACL line that confines a Redis client to one pipeline.",
        "backup": "Copy stores and bundles to a folder while workers run.",
        "restore": "Restore a backup.",
        "scrub": "Read all stored data and report damage.",
        "salvage": "Rebuild a damaged store from its readable rows.",
        "move-storage": "Copy the control plane from system.db to PostgreSQL.",
        "completion": "Print the completion script of a shell.",
    },
}
# Groups of operations that have further commands, of a module of memrelay.cli.commands.
EXTENDED = ("capture", "recipes")
# Groups that run this command if none of theirs is named.
DEFAULTS = {"webhooks": "show"}
# Plain help: rich would add 0.1 s to each command.
PLAIN: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}


# The groups whose commands are generated from operations. No operation is loaded here, because
# that would delay help and completion.
OPERATION_GROUPS = {
    noun.replace("_", "-"): f"Call the operations on {noun.replace('_', ' ')} of a pipeline."
    for noun in list_nouns()
}
GROUPS["Operations on what a pipeline remembers"] = {
    name: summary for name, summary in OPERATION_GROUPS.items() if name not in GROUPS["Records"]
}
COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}


class CommandWithHints(TyperCommand):
    """Explain quoting if a shell split a text, or if a text looks like an option."""

    # parse_args reports extra arguments itself.
    allow_extra_args = True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as typer does, with hints in the errors."""
        try:
            rest = super().parse_args(ctx, args)
        except UsageError as error:
            option = getattr(error, "option_name", None) or "--"
            if option.startswith("--") or not self._takes_text():
                raise
            ctx.fail(
                f"No such option: {escaped(option)}. "
                'Put a text that begins with - last, after --: -- "- milk"'
            )
        if rest and not ctx.resilient_parsing:
            hint = (
                '. Quote a text of several words: "The meeting is at 3pm"'
                if self._takes_text()
                else ""
            )
            ctx.fail(f"Got unexpected extra argument(s) ({escaped(' '.join(rest))}){hint}")
        return rest

    def _takes_text(self) -> bool:
        return any(
            parameter.param_type_name == "argument" and parameter.name in TEXTS
            for parameter in self.params
        )


class GroupWithDefault(TyperGroup):
    """A group that runs its command of DEFAULTS if the first word names no other one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as typer does."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [DEFAULTS[str(self.name)], *args]
        return super().parse_args(ctx, args)


class LazyCommands(TyperGroup):
    """List all commands by name and summary. Import only the called one."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands under the headings of GROUPS."""
        width = max(map(len, COMMANDS))
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                rows = [(name.ljust(width), summary) for name, summary in commands.items()]
                formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return (name, command, its arguments). typer suggests a name for an unknown one."""
        name, known, rest = super().resolve_command(ctx, args)
        return name, None if known is None or name is None else _load(name), rest


def main() -> None:
    """Run the command in `sys.argv` and exit."""
    _replace_closed_streams()
    exit_on_signals()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Escape characters that the terminal cannot encode.
            stream.reconfigure(errors="backslashreplace")
    completion_init()
    run_command()


def run_command(arguments: Sequence[str] | None = None) -> None:
    """Run one command, by default the one in `sys.argv`.

    Raises SystemExit: at the end of every command.
    """
    try:
        make_app()(arguments, prog_name=NAME)
    except OSError as error:
        # For example, help that cannot be written to a full disk.
        if error.filename is None:
            load("memrelay.cli.terminal.output").discard_stdout()
        sys.exit(f"{NAME}: {error.filename or 'stdout'}: {error.strerror}")


def _replace_closed_streams() -> None:
    """Connect closed standard streams to /dev/null, so that no file gets their numbers."""
    # The system gives out the lowest free number first.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # open until the end


def make_app() -> typer.Typer:
    """Return the application. Each command is a placeholder until it is called."""
    app = typer.Typer(
        name=NAME,
        cls=LazyCommands,
        help="Memory for agents on a message bus.",
        no_args_is_help=True,
        **PLAIN,
    )
    app.callback()(_options)
    for name, summary in COMMANDS.items():
        app.command(name, short_help=summary)(_placeholder)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        # importlib.metadata is slow to import.
        version = importlib.import_module("importlib.metadata").version(NAME)
        typer.echo(f"{NAME} {version}")
        raise typer.Exit


def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


def find_functions(name: str) -> Any:
    """Return the function of a command, or the list of functions of a group."""
    commands = []
    if name in OPERATION_GROUPS:
        commands = importlib.import_module("memrelay.cli.operation_command").make_commands(name)
        if name not in EXTENDED:
            return commands
    word = f"{name}_" if keyword.iskeyword(name) else name.replace("-", "_")
    functions = getattr(load(f"memrelay.cli.commands.{word}"), word)
    return [*functions, *commands] if isinstance(functions, list) else functions


def _load(name: str) -> Any:
    functions = find_functions(name)
    if not isinstance(functions, list):
        app = typer.Typer(**PLAIN)
        app.command(name, cls=CommandWithHints)(functions)
        return get_command(app)
    kind = GroupWithDefault if name in DEFAULTS else TyperGroup
    group = typer.Typer(name=name, cls=kind, help=COMMANDS[name], no_args_is_help=True, **PLAIN)
    # With a callback, typer makes a group even of a single command.
    group.callback()(_placeholder)
    for function in functions:
        group.command(function.__name__.replace("_", "-"), cls=CommandWithHints)(function)
    return get_command(group)


def _placeholder() -> None:
    pass


if __name__ == "__main__":
    main()
