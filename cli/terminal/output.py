"""What goes to stdout: lines of text or of JSON, which do nothing to a terminal but appear on
it."""

import os
import re
import select
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import orjson
import typer

# Text that does nothing to a terminal but appear on it.

# Controls of a terminal (C0, DEL and C1), and what reorders or hides text; not the joiners of emoji
# and of Persian.
UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def escaped(text: str) -> str:
    """The text with what could act on a terminal as \\u001b; inside of JSON this changes nothing
    that it says."""
    return UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


SPACES = bytes.maketrans(b"\t\r\n", b"   ")  # in what is JSON these stand between values alone


def print_line(text: str, *, before: str = "") -> None:
    """A line, escaped but for what is to stand `before`. Where nobody reads any more, the command
    ends without a word."""
    _print(before + escaped(text))


def print_json(value: Any, *, indent: bool = False) -> None:
    """A value as one line of JSON, or indented; in UTF-8 whatever the terminal's encoding."""
    lines = orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None).decode().split("\n")
    _print("\n".join(map(escaped, lines)).encode())


def as_it_came(text: bytes) -> orjson.Fragment:
    """JSON for `print_json` to repeat on one line, every digit as it is. Raises JSONDecodeError."""
    orjson.loads(text)
    return on_one_line(text)


def on_one_line(text: bytes) -> orjson.Fragment:
    """The same of what is known to be JSON."""
    return orjson.Fragment(text.translate(SPACES))


def is_read() -> bool:
    """Whether somebody still reads stdout; a pipe tells even while nothing is written."""
    looking = select.poll()
    looking.register(sys.stdout, 0)
    return not looking.poll(0)


def _print(line: str | bytes) -> None:
    try:
        typer.echo(line)
    except BrokenPipeError:
        end_unread()
    except OSError as error:  # which the system does not name
        raise OSError(error.errno, error.strerror, "stdout") from error


def end_unread() -> NoReturn:
    """Ends the command, with nothing left for Python to flush into the pipe."""
    _forget_stdout()
    raise typer.Exit(0)


def report(say: Callable[[], None]) -> None:
    """Says how far a command is. What it still has to do is done, and what it ends with is its own,
    whoever reads that, and
    where it cannot be written.
    """
    try:
        say()
    except typer.Exit:
        pass  # nobody reads
    except OSError as error:
        _forget_stdout()
        typer.echo(
            f"memrelay: {error.filename}: {error.strerror}; the rest is done all the same, and told no more",
            err=True,
        )


def greet(say: Callable[[], None]) -> None:
    """What a server says of itself when it is ready: it goes on where that cannot be written, as to
    a full disk."""
    try:
        say()
    except (OSError, typer.Exit):
        _forget_stdout()


def _forget_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
