"""The URIs of resources: memory://PIPELINE/records/GUID, and so on."""

import re
from typing import Literal, NamedTuple
from urllib.parse import quote, unquote

from memrelay.memory.records.ids import LOCAL_UID

ResourceKind = Literal["record", "history", "memory", "recipe", "graph"]
GRAPH_URI = "memory://knowledge-graph"
# Ids are longer than this in no operation.
MAX_URI_CHARACTERS = 1024
URI = re.compile(r"memory://([A-Za-z0-9_-]{1,64})/(records|memories|recipes)/([^/?#]+)(/history)?")
KINDS: dict[tuple[str, bool], ResourceKind] = {
    ("records", False): "record",
    ("records", True): "history",
    ("memories", False): "memory",
    ("recipes", False): "recipe",
}


class ResourceUri(NamedTuple):
    """A parsed URI. `uid` is the pipeline, "local" for a file."""

    kind: ResourceKind
    uid: str
    id: str

    def __str__(self) -> str:
        if self.kind == "graph":
            return GRAPH_URI
        folder = {"record": "records", "history": "records", "memory": "memories"}
        path = f"{folder.get(self.kind, 'recipes')}/{quote(self.id, safe='')}"
        return f"memory://{self.uid}/{path}{'/history' * (self.kind == 'history')}"


def parse_uri(text: str) -> ResourceUri | None:
    """Return the parts of a URI, None if it has none of the forms."""
    if text == GRAPH_URI:
        return ResourceUri("graph", "", "")
    found = URI.fullmatch(text) if len(text) <= MAX_URI_CHARACTERS else None
    if found is None:
        return None
    uid, folder, ident, suffix = found.groups()
    kind = KINDS.get((folder, suffix is not None))
    return None if kind is None else ResourceUri(kind, uid, unquote(ident))


def name_of(uid: str) -> str:
    """Return the name of a pipeline in URIs; a file has no uid."""
    return uid or LOCAL_UID
