"""The commands of Anthropic's memory tool (memory_20250818) on the agent's own store.

A file is an entry, and its path is the key. A folder is a prefix of keys.
"""

from collections.abc import Callable, Mapping
from typing import Any

from memrelay.memory.errors import ResultTooLarge
from memrelay.memory.models.shared_stores.item import ItemView
from memrelay.memory.models.shared_stores.table import ItemSize
from memrelay.memory.models.shared_stores.tool.answer import ToolError
from memrelay.memory.models.shared_stores.tool.arguments import MAX_KEY_CHARACTERS, type_of
from memrelay.memory.models.shared_stores.tool.entries import Entries
from memrelay.memory.models.shared_stores.tool.file_texts import (
    ROOT,
    format_file,
    format_listing,
    insert_text,
    parse_file_path,
    replace_text,
)
from memrelay.memory.models.shared_stores.tool.shapes import text_of

Arguments = Mapping[str, Any]
DENIED = "Access denied to this store"
# Files of a folder that one command lists, and that one command deletes or moves.
MAX_LISTED = 100_000
MAX_CHANGED = 10_000


def view(entries: Entries, given: Arguments) -> str:
    """Return the numbered lines of a file, or the listing of a folder."""
    path = _text(given, "path", "view")
    key = parse_file_path(path)
    file = _find(entries, key)
    if file is not None:
        return format_file(path, text_of(file.value), _view_range(given))
    files = _files_in(entries, key)
    if key and not files:
        raise _no_such_path(path)
    start = len(_prefix_of(key))
    return format_listing(path, [(file.key[start:], file.size) for file in files])


def create(entries: Entries, given: Arguments) -> str:
    """Write a new file."""
    path, text = _text(given, "path", "create"), _text(given, "file_text", "create")
    key = parse_file_path(path)
    if not key or _exists(entries, key):
        raise ToolError(f"File {path} already exists")
    _check_new(entries, key)
    entries.put(entries.agent, key, text, entries.default_ttl_s)
    return f"File created successfully at: {path}"


def str_replace(entries: Entries, given: Arguments) -> str:
    """Replace the only occurrence of a text in a file."""
    path, old = _text(given, "path", "str_replace"), _text(given, "old_str", "str_replace")
    file = _get_file(entries, path)
    text = _editable_text(file, path)
    edited, answer = replace_text(path, text, old, _text(given, "new_str", "str_replace", ""))
    _write(entries, file, edited)
    return answer


def insert(entries: Entries, given: Arguments) -> str:
    """Insert lines into a file."""
    path, new = _text(given, "path", "insert"), _text(given, "insert_text", "insert")
    file = _get_file(entries, path)
    text = insert_text(_editable_text(file, path), given.get("insert_line"), new)
    _write(entries, file, text)
    return f"The file {path} has been edited."


def delete(entries: Entries, given: Arguments) -> str:
    """Delete a file, or a folder with all that it contains."""
    path = _text(given, "path", "delete")
    key = parse_file_path(path)
    if not key:
        raise ToolError(f"Cannot delete the {ROOT} directory itself")
    for file in _own_files_at(entries, key, path):
        entries.delete(entries.agent, file.key)
    return f"Successfully deleted {path}"


def rename(entries: Entries, given: Arguments) -> str:
    """Move a file, or a folder with all that it contains."""
    path, new_path = _text(given, "old_path", "rename"), _text(given, "new_path", "rename")
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


def _text(given: Arguments, name: str, command: str, default: str | None = None) -> str:
    value = given.get(name, default)
    if value is None:
        raise ToolError(f"{name} is required for {command}")
    if not isinstance(value, str):
        raise ToolError(f"{name} must be text, not {type_of(value)}")
    return value


def _view_range(given: Arguments) -> list[int] | None:
    """Return the lines to show, None for all."""
    wanted = given.get("view_range")
    if wanted is None:
        return None
    if not isinstance(wanted, list) or any(type(number) is not int for number in wanted):
        raise ToolError("view_range must be two numbers: the first and the last line")
    return wanted


def _find(entries: Entries, key: str) -> ItemView | None:
    """Return the file with that key, None if there is none."""
    is_valid = 0 < len(key) <= MAX_KEY_CHARACTERS
    return entries.get(entries.agent, key) if is_valid else None


def _prefix_of(folder: str) -> str:
    return f"{folder}/" if folder else ""


def _files_in(entries: Entries, folder: str, limit: int = MAX_LISTED) -> list[ItemSize]:
    """Return the files below a folder. Among several owners, the file that a read returns counts.

    Raises ResultTooLarge: there are more than `limit`.
    """
    found: dict[str, ItemSize] = {}
    if len(folder) >= MAX_KEY_CHARACTERS:
        return []
    for file in entries.sizes(entries.agent, _prefix_of(folder)):
        held = found.get(file.key)
        if held is None and len(found) == limit:
            raise ResultTooLarge(f"the folder has more than {limit} files")
        if held is None or _preference(entries.agent, held) < _preference(entries.agent, file):
            found[file.key] = file
    return list(found.values())


def _preference(agent: str, file: ItemSize) -> tuple[bool, int]:
    return file.owner == agent, file.updated_at


def _is_folder(entries: Entries, key: str) -> bool:
    if len(key) >= MAX_KEY_CHARACTERS:
        return False
    return bool(entries.page(entries.agent, _prefix_of(key), limit=1).entries)


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
        raise ToolError(f"Cannot edit {path}: value is {type_of(file.value)}, not text.")
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


HANDLERS: dict[str, Callable[[Entries, Arguments], str]] = {
    "view": view,
    "create": create,
    "str_replace": str_replace,
    "insert": insert,
    "delete": delete,
    "rename": rename,
}
