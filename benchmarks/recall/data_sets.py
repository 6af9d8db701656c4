"""Detection of the data sets in a folder or in its subfolders."""

from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.recall import beir, cranfield, locomo
from benchmarks.recall.collection import BadData, Collection

EXPECTED = (
    "LoCoMo's conversations (*.json), Cranfield (cran.all.1400, cran.qry, cranqrel), "
    "or BEIR's layout (corpus.jsonl, queries.jsonl, qrels/test.tsv)"
)


def collections(folder: Path) -> list[Collection]:
    """Return the collections of the folder and its subfolders. Raises BadData: if there is none."""
    found = list(_load_all(folder))
    if not found:
        raise BadData(
            f"no known data set in {folder} or in its subfolders: pass a folder with {EXPECTED}"
        )
    return found


def _load_all(folder: Path) -> Iterator[Collection]:
    for place in (folder, *sorted(path for path in folder.glob("*") if path.is_dir())):
        if load := _find_loader(place):
            yield load(place)


def _find_loader(folder: Path) -> Callable[[Path], Collection] | None:
    """Return the loader that matches the files of the folder."""
    if (folder / beir.DOCUMENTS).exists():
        return beir.load
    if (folder / cranfield.ABSTRACTS).exists():
        return cranfield.load
    return locomo.load if any(folder.glob("*.json")) else None
