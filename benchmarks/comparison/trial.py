"""Runs one task with one peer, in the peer's environment.

    python -m benchmarks.comparison.trial < task.json

The task is a JSON object: `task` (quality, speed or writes), `module`, `modes`, `embedder` (the URL
of the embedder's server, "local" or ""), and what the task needs. The result is a JSON object on
the last line of stdout. Needs the standard library and the packages of the peer.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.comparison.peer import Peer
from benchmarks.recall.collection import Document, Question
from benchmarks.recall.data_sets import collections

DEPTH = 10  # documents per answer
BATCH = 100  # documents per batch
SEARCHES = 100
PEOPLE = ("Ada", "Ben", "Chloe", "Dev", "Emil", "Farah", "Grace", "Hugo")
PLANTS = ("basil", "fern", "ivy", "lily", "mint", "oak", "rose", "thyme", "violet", "willow")


def main() -> None:
    """Run the task of stdin."""
    task = json.load(sys.stdin)
    run = {"quality": measure_quality, "speed": measure_speed, "writes": only_write}[task["task"]]
    result = run(task)
    print(json.dumps(result), flush=True)


def measure_quality(task: dict[str, Any]) -> dict[str, Any]:
    """Load each corpus of a collection into a separate store, and ask all questions.

    The result has `load_s`, and by mode `found` (ids of every question, corpora in order) and
    `search_ms`.
    """
    collection = collections(Path(task["data"]))[task["collection"]]
    found: dict[str, list[list[str]]] = {mode: [] for mode in task["modes"]}
    search_ms: dict[str, list[float]] = {mode: [] for mode in task["modes"]}
    load_s = 0.0
    for corpus in collection.corpora:
        with TemporaryDirectory(dir=task["folder"]) as folder:
            peer = open_peer(task, Path(folder))
            peer.search("warm up", 1, task["modes"][0])
            began = time.perf_counter()
            peer.add_batch(corpus.documents)
            peer.finish()
            load_s += time.perf_counter() - began
            for mode in task["modes"]:
                answers, times = ask_all(peer, corpus.questions, mode)
                found[mode] += answers
                search_ms[mode] += times
            peer.close()
    return {"load_s": load_s, "found": found, "search_ms": search_ms}


def ask_all(
    peer: Peer, questions: Sequence[Question], mode: str
) -> tuple[list[list[str]], list[float]]:
    """Return the ids that each question finds, and its milliseconds."""
    answers: list[list[str]] = []
    times = list(
        time_each(
            lambda question: answers.append(peer.search(question.text, DEPTH, mode)), questions
        )
    )
    return answers, times


def measure_speed(task: dict[str, Any]) -> dict[str, Any]:
    """Measure single writes, batches and the resident memory after searches.

    The result has `single_ms` of each write, `batch_s` of all batches, `rss_bytes`, and for a peer
    that takes vectors `vector_ms` of each write with a vector.
    """
    first, *documents = make_documents(task["documents"] + 1)
    result: dict[str, Any] = {}
    with TemporaryDirectory(dir=task["folder"]) as folder:
        peer = open_peer(task, Path(folder))
        peer.add(first)  # loads what a first write needs
        result["single_ms"] = list(time_each(peer.add, documents))
        peer.close()
    if task["takes_vectors"]:
        with TemporaryDirectory(dir=task["folder"]) as folder:
            result["vector_ms"] = measure_vectors(open_peer(task, Path(folder)), documents)
    with TemporaryDirectory(dir=task["folder"]) as folder:
        peer = open_peer(task, Path(folder))
        peer.add(first)
        began = time.perf_counter()
        for start in range(0, len(documents), BATCH):
            peer.add_batch(documents[start : start + BATCH])
        result["batch_s"] = time.perf_counter() - began
        peer.finish()
        for number in range(SEARCHES):
            peer.search(f"Who waters the {PLANTS[number % 10]}?", DEPTH, task["modes"][-1])
        result["rss_bytes"] = read_memory()
        peer.close()
    return result


def measure_vectors(peer: Any, documents: Sequence[Document]) -> list[float]:
    """Return milliseconds of each write with a vector that is made before."""
    embedder = import_module("benchmarks.comparison.embedder").load_embedder()
    rows = embedder.embed([one.text for one in documents]).tolist()
    pairs = zip(documents, rows, strict=True)
    return list(time_each(lambda pair: peer.add_with_vector(*pair), pairs))


def only_write(task: dict[str, Any]) -> dict[str, Any]:
    """Write documents one by one and end, so that strace can count the syncs."""
    peer = open_peer(task, Path(task["folder"]))
    for document in make_documents(task["documents"]):
        peer.add(document)
    return {}


def open_peer(task: dict[str, Any], folder: Path) -> Peer:
    """Return an empty store of the peer."""
    peer: Peer = import_module(f"benchmarks.comparison.peers.{task['module']}").open_peer(
        folder, task["embedder"]
    )
    return peer


def make_documents(count: int) -> list[Document]:
    """Return different turns of about 60 characters."""
    return [
        Document(
            f"D{number}",
            f"On day {number} I watered the {PLANTS[number % 10]} and wrote {number * 7} words",
            "garden",
            PEOPLE[number % 8],
            1_700_000_000_000 + number * 60_000,
        )
        for number in range(count)
    ]


def time_each(run: Callable[[Any], None], values: Iterable[Any]) -> Iterable[float]:
    """Yield the milliseconds of each call."""
    for value in values:
        began = time.perf_counter()
        run(value)
        yield (time.perf_counter() - began) * 1e3


def read_memory(process: str = "self") -> int:
    """Return the resident bytes of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) << 10


if __name__ == "__main__":
    main()
