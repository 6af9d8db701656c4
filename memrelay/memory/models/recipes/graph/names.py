"""The ids, names and kinds that inputs of graphs accept."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from memrelay.memory.errors import NameTaken
from memrelay.memory.models.recipes.faults import FaultList
from memrelay.memory.validation import Place

# The ids of templates and views.
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
NewId = Annotated[str, Field(pattern=rf"{ID_PATTERN}|^$")]
MAX_NAME_CHARACTERS = 256
# Nodes or edges that one call adds.
MOST_ADDED = 1000
# One line of text: an id of a node or an edge, or a kind.
ONE_LINE = re.compile(r"[^\x00-\x1f\x7f]{1,128}")
NAME_RULE = "is a text of 1 to 128 characters without control characters"
SearchId = Annotated[str, Field(min_length=1, max_length=128)]
TemplateName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]
Description = Annotated[str, Field(max_length=2048)]


def check_name(value: object, path: Place, faults: FaultList) -> bool:
    """Return whether a value is one line of text; add a fault otherwise."""
    is_valid = isinstance(value, str) and ONE_LINE.fullmatch(value) is not None
    if not is_valid:
        faults.add(path, "bad_id" if isinstance(value, str) else "bad_type", NAME_RULE)
    return is_valid


def refuse_taken(ids: Iterable[str]) -> None:
    """Raise NameTaken if an id occurs twice. "" stands for an id to generate."""
    twice = [id_ for id_, count in Counter(filter(None, ids)).items() if count > 1]
    if twice:
        raise NameTaken(f"the id {twice[0]!r} occurs twice in the input; ids are unique")
