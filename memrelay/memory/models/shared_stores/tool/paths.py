"""The paths of the memory tool: `/memories/KEY`, or `/memories/shared/STORE/KEY`.

In STORE, a slash is `%2F` and a percent sign is `%25`.
"""

import re
from typing import NamedTuple

from memrelay.memory.models.shared_stores.tool.answer import ToolError

ROOT = "/memories"
SHARED = "shared/"
# Models add it to keys. A path with it also finds the key without it.
SUFFIX = ".md"
ENCODED = re.compile("%(2F|25)", re.IGNORECASE)


class Address(NamedTuple):
    """The entry or folder that a tool call names.

    `key` is "" for a folder, and then `prefix` selects its keys. `short_key` is the key to use if
    no entry has `key`; "" for none. `path` names the address in answers. An address that
    `lists_stores` has no store.
    """

    store: str
    key: str = ""
    prefix: str = ""
    short_key: str = ""
    path: str = ""
    lists_stores: bool = False


def parse_path(path: str, own_store: str, bare_store: str = "") -> Address:
    """Return the address of a path. A bare name is a key in `bare_store`, by default the own store.

    Raises ToolError: the path is invalid.
    """
    if path.startswith("/"):
        store, rest = _split_store(path, own_store)
    else:
        store, rest = bare_store or own_store, path
    if ".." in rest.split("/") or store == "..":
        raise _invalid(path)
    if not store:
        return Address("", path=path, lists_stores=True)
    if not rest or rest.endswith("/"):
        return Address(store, prefix=rest, path=path)
    return Address(store, rest, short_key=_without_suffix(rest), path=path)


def make_path(store: str, key: str, own_store: str) -> str:
    """Return the path of a key."""
    if store == own_store:
        return f"{ROOT}/{key}"
    encoded = store.replace("%", "%25").replace("/", "%2F")
    return f"{ROOT}/{SHARED}{encoded}/{key}"


def _split_store(path: str, own_store: str) -> tuple[str, str]:
    """Return (store, rest) of an absolute path. The store is "" for the list of stores."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise _invalid(path)
    below = path[len(ROOT) + 1 :]
    if not below.startswith(SHARED):
        return own_store, below
    store, _, rest = below.removeprefix(SHARED).partition("/")
    if not store and below != SHARED:
        raise _invalid(path)
    return ENCODED.sub(lambda found: "%" if found[1] == "25" else "/", store), rest


def _without_suffix(key: str) -> str:
    return key.removesuffix(SUFFIX) if key.endswith(SUFFIX) else ""


def _invalid(path: str) -> ToolError:
    return ToolError(
        f"Invalid path: {path}. Use {ROOT}/{{key}} or {ROOT}/{SHARED}{{store}}/{{key}}."
    )
