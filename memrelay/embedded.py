"""The operations on one store file, without bus and server: `open_store`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from memrelay.embedded_file import EmbeddedFile, Embedder, open_file
from memrelay.embedded_seals import EmbeddedSeals
from memrelay.memory.engine.store import Store
from memrelay.methods import EmbeddedNouns

ACTOR = "python"


class EmbeddedStore(EmbeddedFile, EmbeddedNouns):
    """An open store file with a method for each operation, such as `store.records.create`.

    Its threads take turns; a forked process cannot use it.
    """

    def __init__(self, store: Store, actor: str, seals: EmbeddedSeals, *, is_alone: bool) -> None:
        EmbeddedFile.__init__(self, store, actor, seals, is_alone=is_alone)
        EmbeddedNouns.__init__(self, self._call)


@contextmanager
def open_store(
    path: str | Path,
    actor: str = ACTOR,
    *,
    seal_keys: Sequence[str] = (),
    embedder: Embedder | None = None,
) -> Iterator[EmbeddedStore]:
    """Open the store in a file, and create the file if it does not exist.

    `actor` is the default source of new records. `seal_keys` are the keys of the setting
    memory.seal_keys themselves, not references; a sealed value is refused without them.

    `embedder` is "local" for searches by meaning, which need the extra `local`, or "none" for
    words only; by default it is "local" if the extra is installed. A search with mode "hybrid" or
    "semantic" first computes the missing vectors, about 100 per second; `store.records.embed()`
    does it ahead.

    Raises Refused for an invalid actor or seal key, or if the embedder is not installed,
    NotTheOwner if a worker serves the memory root, StoreBusy if another program has the file open,
    and StoreBroken if the file is not a usable store.
    """
    with open_file(path, actor, EmbeddedStore, seal_keys=seal_keys, embedder=embedder) as store:
        yield store
