"""The comparison with other memories: its tasks on small data, and the tables of the page."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.comparison.environments import constraints
from benchmarks.comparison.run import PAGE
from benchmarks.comparison.systems import SYSTEMS
from benchmarks.comparison.tables import fill, render
from benchmarks.comparison.trial import measure_quality, measure_speed, only_write
from benchmarks.recall.data_sets import collections
from tests.benchmarks.datasets import ask, conversation, write_locomo

PARTS = ("run", "quality", "writes", "costs")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    question = ask("a puppy called Biscuit", "D1:2", "D2:1")
    return write_locomo(tmp_path / "locomo", conversation(question))


def make_task(module: str, folder: Path, **more: Any) -> dict[str, Any]:
    given = {"module": module, "modes": ["words"], "embedder": "", "takes_vectors": False}
    return {"folder": str(folder), **given, **more}


@pytest.mark.parametrize("module", ["fts5", "memrelay"])
def test_a_peer_finds_the_evidence_of_a_question(module: str, tmp_path: Path, data: Path) -> None:
    found = measure_quality(make_task(module, tmp_path, data=str(data), collection=0))

    assert found["found"]["words"][0][0] == "D1:2"
    assert len(found["search_ms"]["words"]) == 1 and found["load_s"] > 0


def test_a_peer_measures_writes_and_memory(tmp_path: Path) -> None:
    found = measure_speed(make_task("fts5", tmp_path, documents=5))

    assert len(found["single_ms"]) == 5 and found["batch_s"] > 0
    assert found["rss_bytes"] > 1 << 20
    assert only_write(make_task("fts5", tmp_path, documents=3)) == {}


def test_the_tables_have_the_figures_and_name_what_did_not_run(data: Path) -> None:
    answers = {"load_s": 0.5, "found": {"words": [["D1:2", "D1:1"]]}, "search_ms": {"words": [2.5]}}
    writes = {"single_ms": [4.0], "batch_s": 0.5, "rss_bytes": 21e6, "syncs_per_write": 1.0}
    machine = dict.fromkeys(("date", "processors", "model", "memory_gb", "system", "python"), "x")

    text = render(
        {
            "machine": machine | {"load": "0.1"},
            "seconds": 60,
            "installed": {
                name: {"version": "1.0", "seconds": 1.25, "size_bytes": 2e6} for name in SYSTEMS
            },
            "quality": {"fts5": [answers], "mem0": [{"failed": "no network"}]},
            "speed": {"fts5": writes},
        },
        collections(data),
    )

    assert "busy" not in text["run"]
    assert "5 documents and 1 questions" in text["quality"] and "CC BY-NC 4.0" in text["quality"]
    shares = "1.000 | 1.000 | 0.000 | 0.000 | 0.500 | 0.500 (0.50 to 0.50)"
    assert f"| FTS5 | {shares} | 2.5 | 10 |" in text["quality"]
    assert "| mem0, raw mode | not run |" in text["quality"]
    assert "| FTS5 | 1.0 | 250 | 4.0 | 4.0 | | | 2 |" in text["writes"]
    assert "| FTS5 | 2 | 1.2 | 21 |" in text["costs"]
    assert "| Chroma | 2 | 1.2 | not run |" in text["costs"]


def test_the_page_has_a_place_for_each_table() -> None:
    filled = fill(PAGE.read_text(), dict.fromkeys(PARTS, "NEW"))

    assert filled.count("\n\nNEW\n\n") == len(PARTS)
    assert fill(filled, dict.fromkeys(PARTS, "NEW")) == filled
    with pytest.raises(ValueError, match="<!-- more -->"):
        fill(filled, {"more": "NEW"})


def test_each_installed_system_has_constraints_without_addresses() -> None:
    texts = [constraints(name).read_text() for name, one in SYSTEMS.items() if one.packages]

    assert len(texts) == 6
    assert all("==" in text and "://" not in text for text in texts)
