"""The compared systems by the names of their rows."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.recall.embedder_only import EmbedderAlone
from benchmarks.recall.peers import ComparedPeer
from benchmarks.recall.plain_fts5 import PlainFts5
from benchmarks.recall.product import Product
from benchmarks.recall.rank_fusion import RankFusion
from benchmarks.recall.system import System


def _make_rank_fusion(folder: Path) -> RankFusion:
    return RankFusion(PlainFts5(folder), EmbedderAlone(folder))


# They run in a separate environment (`make recall-peers`).
PEERS: dict[str, Callable[[Path], System]] = {
    "Chroma": partial(ComparedPeer, module="chroma", mode="vectors"),
    "LanceDB hybrid": partial(ComparedPeer, module="lancedb", mode="hybrid", first=10),
}
SYSTEMS: dict[str, Callable[[Path], System]] = {
    "FTS5": PlainFts5,
    "MiniLM": EmbedderAlone,
    "bge": partial(EmbedderAlone, model="bge"),
    "rank fusion": _make_rank_fusion,
    **PEERS,
    "Memrelay": Product,
    "Memrelay + MiniLM": partial(Product, model="local"),
    "Memrelay + bge": partial(Product, model="bge"),
    "Memrelay + bge, reread": partial(Product, model="bge", rerank="model"),
}
