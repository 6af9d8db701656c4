"""The commands of Anthropic's memory tool (memory_20250818) on the agent's own store.

A file is an entry, and its path is the key. A folder is a prefix of keys.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from memrelay.memory.errors import ResultTooLarge
from memrelay.memory.models.shared_stores.item import ItemView
from memrelay.memory.models.shared_stores.table import ItemSize
from memrelay.memory.models.shared_stores.tool.arguments import (
    MAX_KEY_CHARACTERS,
    ToolError,
    name_type,
)
from memrelay.memory.models.shared_stores.tool.commands import to_text
from memrelay.memory.models.shared_stores.tool.entries import Entries

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
Arguments = Mapping[str, Any]
DENIED = "Access denied to this store"
# Files of a folder that one command lists, and that one command deletes or moves.
MAX_LISTED = 100_000
MAX_CHANGED = 10_000


def view(entries: Entries, arguments: Arguments) -> str:
    """Return the numbered lines of a file, or the listing of a folder."""
    path = _text(arguments, "path", "view")
    key = parse_file_path(path)
    file = _find(entries, key)
    if file is not None:
        return format_file(path, to_text(file.value), _view_range(arguments))
    files = _files_in(entries, key)
    if key and not files:
        raise _no_such_path(path)
    start = len(_make_prefix(key))
    return format_listing(path, [(file.key[start:], file.size) for file in files])


def create(entries: Entries, arguments: Arguments) -> str:
    """Write a new file."""
    path, text = _text(arguments, "path", "create"), _text(arguments, "file_text", "create")
    key = parse_file_path(path)
    if not key or _exists(entries, key):
        raise ToolError(f"File {path} already exists")
    _check_new(entries, key)
    entries.put(entries.agent, key, text, entries.default_ttl_s)
    return f"File created successfully at: {path}"


def str_replace(entries: Entries, arguments: Arguments) -> str:
    """Replace the only occurrence of a text in a file."""
    path, old = _text(arguments, "path", "str_replace"), _text(arguments, "old_str", "str_replace")
    file = _get_file(entries, path)
    text = _editable_text(file, path)
    edited, answer = replace_text(path, text, old, _text(arguments, "new_str", "str_replace", ""))
    _write(entries, file, edited)
    return answer


def insert(entries: Entries, arguments: Arguments) -> str:
    """Insert lines into a file."""
    path, new = _text(arguments, "path", "insert"), _text(arguments, "insert_text", "insert")
    file = _get_file(entries, path)
    text = insert_text(_editable_text(file, path), arguments.get("insert_line"), new)
    _write(entries, file, text)
    return f"The file {path} has been edited."


def delete(entries: Entries, arguments: Arguments) -> str:
    """Delete a file, or a folder with all that it contains."""
    path = _text(arguments, "path", "delete")
    key = parse_file_path(path)
    if not key:
        raise ToolError(f"Cannot delete the {ROOT} directory itself")
    for file in _own_files_at(entries, key, path):
        entries.delete(entries.agent, file.key)
    return f"Successfully deleted {path}"


def rename(entries: Entries, arguments: Arguments) -> str:
    """Move a file, or a folder with all that it contains."""
    path, new_path = _text(arguments, "old_path", "rename"), _text(arguments, "new_path", "rename")
    key, new_key = parse_file_path(path), parse_file_path(new_path)
    if not key:
        raise ToolError(f"Cannot rename the {ROOT} directory itself")
    if not new_key or _exists(entries, new_key):
        raise ToolError(f"The destination {new_path} already exists")
    files = _own_files_at(entries, key, path)
    if f"{new_key}/".startswith(f"{key}/"):
        raise ToolError(f"Cannot rename {path} to {new_path}: the destination is inside of it")
    new_keys = [new_key + file.key[len(key) :] for file in files]
    _check_new(entries, new_key, max(map(len, new_keys)))
    if any(file.encrypted for file in files):
        raise ToolError(DENIED)
    if any(entries.get(entries.agent, moved, internal=True) for moved in new_keys):
        raise ToolError(f"The destination {new_path} already exists")
    for file, moved in zip(files, new_keys, strict=True):
        entries.rename(entries.agent, file.key, to_store=entries.agent, to_key=moved)
    return f"Successfully renamed {path} to {new_path}"


HANDLERS: dict[str, Callable[[Entries, Arguments], str]] = {
    "view": view,
    "create": create,
    "str_replace": str_replace,
    "insert": insert,
    "delete": delete,
    "rename": rename,
}


def _text(arguments: Arguments, name: str, command: str, default: str | None = None) -> str:
    value = arguments.get(name, default)
    if value is None:
        raise ToolError(f"{name} is required for {command}")
    if not isinstance(value, str):
        raise ToolError(f"{name} must be text, not {name_type(value)}")
    return value


def _view_range(arguments: Arguments) -> list[int] | None:
    """Return the lines to show, None for all."""
    lines = arguments.get("view_range")
    if lines is None:
        return None
    if not isinstance(lines, list) or any(type(number) is not int for number in lines):
        raise ToolError("view_range must be two numbers: the first and the last line")
    return lines


def _find(entries: Entries, key: str) -> ItemView | None:
    """Return the file with that key, None if there is none."""
    is_valid = 0 < len(key) <= MAX_KEY_CHARACTERS
    return entries.get(entries.agent, key) if is_valid else None


def _make_prefix(folder: str) -> str:
    return f"{folder}/" if folder else ""


def _files_in(entries: Entries, folder: str, limit: int = MAX_LISTED) -> list[ItemSize]:
    """Return the files below a folder. Among several owners, the file that a read returns counts.

    Raises ResultTooLarge: there are more than `limit`.
    """
    files: dict[str, ItemSize] = {}
    if len(folder) >= MAX_KEY_CHARACTERS:
        return []
    for file in entries.sizes(entries.agent, _make_prefix(folder)):
        other = files.get(file.key)
        if other is None and len(files) == limit:
            raise ResultTooLarge(f"the folder has more than {limit} files")
        if other is None or _preference(entries.agent, other) < _preference(entries.agent, file):
            files[file.key] = file
    return list(files.values())


def _preference(agent: str, file: ItemSize) -> tuple[bool, int]:
    return file.owner == agent, file.updated_at


def _is_folder(entries: Entries, key: str) -> bool:
    if len(key) >= MAX_KEY_CHARACTERS:
        return False
    return bool(entries.page(entries.agent, _make_prefix(key), limit=1).entries)


def _exists(entries: Entries, key: str) -> bool:
    """Return whether a new file cannot have that key. An internal entry also holds its key."""
    if len(key) > MAX_KEY_CHARACTERS:
        return False
    is_used = entries.get(entries.agent, key, internal=True) is not None
    return is_used or _is_folder(entries, key)


def _check_new(entries: Entries, key: str, longest: int = 0) -> None:
    """Raise ToolError if the path of a new file leads through another file, or is too long."""
    if max(longest, len(key)) > MAX_KEY_CHARACTERS:
        raise ToolError(f"A path has at most {MAX_KEY_CHARACTERS} characters after {ROOT}/")
    parts = key.split("/")
    for depth in range(1, len(parts)):
        folder = "/".join(parts[:depth])
        if _find(entries, folder) is not None:
            raise ToolError(f"The path {ROOT}/{folder} is a file, not a folder.")


def _get_file(entries: Entries, path: str) -> ItemView:
    """Return the file at a path. Raises ToolError."""
    key = parse_file_path(path)
    file = _find(entries, key)
    if file is None and (not key or _is_folder(entries, key)):
        raise ToolError(f"The path {path} is not a file.")
    if file is None:
        raise _no_such_path(path)
    return file


def _editable_text(file: ItemView, path: str) -> str:
    if not isinstance(file.value, str):
        raise ToolError(f"Cannot edit {path}: value is {name_type(file.value)}, not text.")
    return file.value


def _write(entries: Entries, file: ItemView, text: str) -> None:
    """Replace the text of a file. Another agent's file stays its own."""
    if not file.value:
        entries.put(file.store, file.key, text)
    elif text != file.value:
        entries.edit(file, file.value, text)


def _own_files_at(entries: Entries, key: str, path: str) -> list[ItemSize]:
    """Return the file with that key, or the files of that folder. All are the agent's own.

    Raises ToolError: there is none, or another agent wrote one of them.
    """
    file = _find(entries, key)
    if file is None:
        files = _files_in(entries, key, MAX_CHANGED)
    else:
        files = [ItemSize(file.key, file.owner, 0, file.encrypted, 0)]
    if not files:
        raise ToolError(f"The path {path} does not exist")
    if any(one.owner != entries.agent for one in files):
        raise ToolError(DENIED)
    return files


def _no_such_path(path: str) -> ToolError:
    return ToolError(f"The path {path} does not exist. Please provide a valid path.")


def parse_file_path(path: str) -> str:
    """Return the key or the folder of a path, without a slash at its ends; "" for the root.

    Raises ToolError: the path does not begin at the root, has a hidden name or `..`, a NUL or a
    backslash, or is too long.
    """
    if not path.startswith(ROOT):
        raise ToolError(f"Path must start with {ROOT}, got: {path}")
    names = [name for name in path.removeprefix(ROOT).split("/") if name not in ("", ".")]
    if ".." in names or any(map(path.__contains__, "\0\\")):
        raise ToolError(f"Path {path} would escape {ROOT} directory")
    if hidden := next((name for name in names if name.startswith(".")), ""):
        raise ToolError(
            f"Path {path} has the hidden name {hidden}: choose a name that does not begin with a "
            "dot"
        )
    if len(path.encode()) > MAX_PATH_BYTES:
        raise ToolError(f"Path {path} is too long: a path has at most {MAX_PATH_BYTES} bytes")
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
    lines = [f"{format_size(_add_sizes(tree))}\t{path}"]
    lines += [f"{format_size(size)}\t{path}/{name}" for name, size in _walk(tree, "", DEPTH)]
    return "\n".join([header, *lines])


def _walk(tree: dict[str, Any], above: str, depth: int) -> Iterable[tuple[str, int]]:
    """Yield (path, bytes) of everything that is not hidden, each folder before its content."""
    for name in sorted(tree, key=lambda name: name.rstrip("/")):
        if name.startswith("."):
            continue
        yield above + name, _add_sizes(tree[name])
        if name.endswith("/") and depth > 1:
            yield from _walk(tree[name], above + name, depth - 1)


def _add_sizes(node: Any) -> int:
    return sum(map(_add_sizes, node.values())) if isinstance(node, dict) else int(node)


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


def _lines_with(text: str, part: str) -> Iterable[int]:
    """Yield the line number of each occurrence; occurrences may overlap."""
    line, before, at = 1, 0, text.find(part)
    while at != -1:
        line, before = line + text.count("\n", before, at), at
        yield line
        at = text.find(part, at + 1)


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
