"""Ids of named memories and their entries (seed 004): they carry their pipeline, so that who has
one finds the owner.

    mem_<uid>_<32 hex digits>     me_<uid>_<32 hex digits>

An entry's hex digits are the guid of its record. A store that is no pipeline's says `local` for the
uid.
"""

import re
from typing import Literal

ID = re.compile(
    r"(mem|me)_([A-Za-z0-9_-]{1,64})_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})"
)
HEX = re.compile("[0-9a-f]{32}")
LOCAL = "local"
Sort = Literal["mem", "me"]


def make_id(sort: Sort, memory_id: str, guid: str) -> str:
    """The id of what has that guid in the store at `memory_id`."""
    return f"{sort}_{uid_of_store(memory_id)}_{guid.replace('-', '')}"


def uid_of(sort: Sort, given: str) -> str:
    """The uid of the pipeline that an id carries; "" for what is no such id."""
    found = ID.fullmatch(given)
    return found[2] if found is not None and found[1] == sort else ""


def guid_of(sort: Sort, memory_id: str, given: str) -> str:
    """The guid that an id of that store carries; "" for what is none."""
    found = ID.fullmatch(given)
    is_ours = found is not None and found[1] == sort and found[2] == uid_of_store(memory_id)
    return "-".join(found.groups()[2:]) if found is not None and is_ours else ""


def uid_of_store(memory_id: str) -> str:
    """The pipeline whose store that is."""
    root, _, rest = memory_id.partition("/")
    return rest.partition("/")[0] if root == "instances" and "/" in rest else LOCAL
