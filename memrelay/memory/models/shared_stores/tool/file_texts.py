"""The texts of Anthropic's memory tool (memory_20250818): paths, listings and numbered lines."""

from collections.abc import Iterable
from typing import Any

from memrelay.memory.models.shared_stores.tool.answer import ToolError

ROOT = "/memories"
MAX_PATH_BYTES = 1024
NUMBER_WIDTH = 6
# Levels of folders in a listing.
DEPTH = 2
CONTEXT_LINES = 2
UNITS = "BKMG"
EDITED = (
    "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
)


def parse_file_path(path: str) -> str:
    """Return the key or the folder of a path, without a slash at its ends; "" for the root.

    Raises ToolError: the path does not begin at the root, has a hidden name or `..`, a NUL or a
    backslash, or is too long.
    """
    if not path.startswith(ROOT):
        raise ToolError(f"Path must start with {ROOT}, got: {path}")
    names = [name for name in path.removeprefix(ROOT).split("/") if name not in ("", ".")]
    is_hidden = any(name.startswith(".") for name in names)
    if is_hidden or any(map(path.__contains__, "\0\\")) or len(path.encode()) > MAX_PATH_BYTES:
        raise ToolError(f"Path {path} would escape {ROOT} directory")
    return "/".join(names)


def format_listing(path: str, files: Iterable[tuple[str, int]]) -> str:
    """Return the listing of a folder. `files` are (path below the folder, bytes)."""
    tree: dict[str, Any] = {}
    for name, size in files:
        # A folder at the last level is only its size.
        *folders, last = name.split("/", DEPTH)[:DEPTH]
        at = tree
        for folder in folders:
            at = at.setdefault(f"{folder}/", {})
        if name.count("/") >= DEPTH:
            last = f"{last}/"
        at[last] = at.get(last, 0) + size
    header = (
        f"Here're the files and directories up to {DEPTH} levels deep in {path}, "
        "excluding hidden items:"
    )
    lines = [f"{format_size(_sum_of(tree))}\t{path}"]
    lines += [f"{format_size(size)}\t{path}/{name}" for name, size in _walk(tree, "", DEPTH)]
    return "\n".join([header, *lines])


def _walk(tree: dict[str, Any], above: str, depth: int) -> Iterable[tuple[str, int]]:
    """Yield (path, bytes) of everything that is not hidden, each folder before its content."""
    for name in sorted(tree, key=lambda name: name.rstrip("/")):
        if name.startswith("."):
            continue
        yield above + name, _sum_of(tree[name])
        if name.endswith("/") and depth > 1:
            yield from _walk(tree[name], above + name, depth - 1)


def _sum_of(node: Any) -> int:
    return sum(map(_sum_of, node.values())) if isinstance(node, dict) else int(node)


def format_size(size: int) -> str:
    """Return a number of bytes like 0B, 1.5K or 2M."""
    value, unit = float(size), 0
    while value >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f}{UNITS[unit]}" if value.is_integer() else f"{value:.1f}{UNITS[unit]}"


def format_file(path: str, text: str, view_range: Any = None) -> str:
    """Return the numbered lines of a file, or those of [first, last]; -1 is the last line."""
    lines, first = text.split("\n"), 1
    if isinstance(view_range, list) and len(view_range) == 2:
        first, last = max(1, view_range[0]), view_range[1]
        lines = lines[first - 1 :] if last == -1 else lines[first - 1 : last]
    numbered = "\n".join(_numbered(lines, first))
    return f"Here's the content of {path} with line numbers:\n{numbered}"


def _numbered(lines: Iterable[str], first: int) -> list[str]:
    return [f"{number:>{NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, first)]


def replace_text(path: str, text: str, old: str, new: str) -> tuple[str, str]:
    """Replace the only occurrence of a text. Return the new text, and the answer.

    Raises ToolError: there is none, or several.
    """
    count = text.count(old)
    if not count:
        raise ToolError(
            f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
        )
    if count > 1:
        places = ", ".join(map(str, _lines_with(text, old)))
        raise ToolError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
            f"{places}. Please ensure it is unique"
        )
    changed, edited = text.count("\n", 0, text.find(old)), text.replace(old, new)
    first = max(0, changed - CONTEXT_LINES)
    shown = edited.split("\n")[first : changed + CONTEXT_LINES + 1]
    return edited, "\n".join([EDITED, *_numbered(shown, first + 1)])


def _lines_with(text: str, wanted: str) -> Iterable[int]:
    """Yield the line number of each occurrence; occurrences may overlap."""
    line, before, at = 1, 0, text.find(wanted)
    while at != -1:
        line, before = line + text.count("\n", before, at), at
        yield line
        at = text.find(wanted, at + 1)


def insert_text(text: str, after_line: Any, new: str) -> str:
    """Return the text with new lines after a line; 0 is the beginning.

    Raises ToolError: there is no such line.
    """
    lines = text.removesuffix("\n").split("\n") if text else []
    is_number = isinstance(after_line, int) and not isinstance(after_line, bool)
    if not is_number or not 0 <= after_line <= len(lines):
        raise ToolError(
            f"Invalid `insert_line` parameter: {after_line}. "
            f"It should be within the range [0, {len(lines)}]."
        )
    lines.insert(after_line, new.rstrip("\n"))
    joined = "\n".join(lines)
    return joined if joined.endswith("\n") else f"{joined}\n"
