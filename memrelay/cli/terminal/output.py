"""Write lines of text or JSON to stdout. No output can control a terminal."""

import os
import select
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import orjson
import typer

from memrelay.cli.terminal import escaped

# Outside strings, JSON has these characters only between values.
SPACES = bytes.maketrans(b"\t\r\n", b"   ")


def print_line(text: str, *, before: str = "") -> None:
    """Print an escaped line, after the unescaped text `before`.

    If the reader has closed the pipe, end the command without a message.
    """
    _print(before + escaped(text))


def print_json(value: Any, *, indent: bool = False) -> None:
    """Print a value as one line of JSON, or indented. Always in UTF-8."""
    lines = orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None).decode().split("\n")
    _print("\n".join(map(escaped, lines)).encode())


def as_it_came(text: bytes) -> orjson.Fragment:
    """Return JSON for `print_json` that keeps every digit. Raises JSONDecodeError."""
    orjson.loads(text)
    return on_one_line(text)


def on_one_line(text: bytes) -> orjson.Fragment:
    """Return valid JSON on one line, for `print_json`."""
    return orjson.Fragment(text.translate(SPACES))


def is_read() -> bool:
    """Return whether the reader of stdout still has its pipe open."""
    poll = select.poll()
    poll.register(sys.stdout, 0)
    return not poll.poll(0)


def _print(line: str | bytes) -> None:
    try:
        typer.echo(line)
    except BrokenPipeError:
        end_unread()
    except OSError as error:
        discard_stdout()
        # The system does not name the stream.
        raise OSError(error.errno, error.strerror, "stdout") from error


def end_unread() -> NoReturn:
    """End the command with exit code 0, because the reader has closed its output."""
    discard_stdout()
    raise typer.Exit(0)


def report_progress(print_progress: Callable[[], None]) -> None:
    """Print progress. If stdout is closed or full, the command still does all of its work."""
    try:
        print_progress()
    except typer.Exit:
        # The reader has closed the pipe.
        pass
    except OSError as error:
        discard_stdout()
        typer.echo(
            f"memrelay: {error.filename}: {error.strerror}; the command continues without output",
            err=True,
        )


def greet(print_greeting: Callable[[], None]) -> None:
    """Print the greeting of a server. The server also runs if stdout is closed or full."""
    try:
        print_greeting()
    except (OSError, typer.Exit):
        discard_stdout()


def discard_stdout() -> None:
    """Redirect stdout to /dev/null, so that Python does not fail to flush it at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
