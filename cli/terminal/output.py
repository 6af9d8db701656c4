"""Write lines of text or JSON to stdout. No output can control a terminal."""

import os
import re
import select
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import orjson
import typer

# Control characters (C0, DEL and C1) and characters that reorder or hide text. The joiners of
# emoji and of Persian are allowed.
UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
# Outside strings, JSON has these characters only between values.
SPACES = bytes.maketrans(b"\t\r\n", b"   ")


def escaped(text: str) -> str:
    """Return the text with unsafe characters as \\u001b. JSON keeps its meaning."""
    return UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


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
        # The system does not name the stream.
        raise OSError(error.errno, error.strerror, "stdout") from error


def end_unread() -> NoReturn:
    """End the command with exit code 0, because nobody reads its output."""
    _discard_stdout()
    raise typer.Exit(0)


def report_progress(print_progress: Callable[[], None]) -> None:
    """Print progress. If stdout is closed or full, the command still does all of its work."""
    try:
        print_progress()
    except typer.Exit:
        # The reader has closed the pipe.
        pass
    except OSError as error:
        _discard_stdout()
        typer.echo(
            f"memrelay: {error.filename}: {error.strerror}; the command continues without output",
            err=True,
        )


def greet(print_greeting: Callable[[], None]) -> None:
    """Print the greeting of a server. The server also runs if stdout is closed or full."""
    try:
        print_greeting()
    except (OSError, typer.Exit):
        _discard_stdout()


def _discard_stdout() -> None:
    """Redirect stdout to /dev/null, so that Python has nothing to flush into the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
