"""The data sets that lie in a folder that the user has named: itself one, or the folder of some."""

from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.recall import beir, cranfield, locomo
from benchmarks.recall.collection import BadData, Collection

WANTED = (
    "LoCoMo's conversations (*.json), Cranfield (cran.all.1400, cran.qry, cranqrel), or BEIR's layout (corpus.jsonl, "
    "queries.jsonl, qrels/test.tsv)"
)


def collections(folder: Path) -> list[Collection]:
    """Those of the folder, or those of its folders. Raises BadData where there are none."""
    found = list(_found(folder))
    if not found:
        raise BadData(
            f"{folder} is no folder, or holds no data set that is known, nor do the folders in it: {WANTED}"
        )
    return found


def _found(folder: Path) -> Iterator[Collection]:
    for place in (folder, *sorted(path for path in folder.glob("*") if path.is_dir())):
        if load := _loader(place):
            yield load(place)


def _loader(folder: Path) -> Callable[[Path], Collection] | None:
    """By the files that are there."""
    if (folder / beir.DOCUMENTS).exists():
        return beir.load
    if (folder / cranfield.ABSTRACTS).exists():
        return cranfield.load
    return locomo.load if any(folder.glob("*.json")) else None
