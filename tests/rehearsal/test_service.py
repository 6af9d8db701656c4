"""Reports are kept as files, and read in pages."""

import os
import time
from pathlib import Path
from typing import Any

import orjson

from memrelay.memory.control.catalog import Deployed
from memrelay.memory.engine.copy import REPORT_S, REPORTS, clear_copies
from memrelay.rehearsal.output import LISTS
from memrelay.rehearsal.service import cut_page, find_served, write_report


def make_report(count: int) -> dict[str, Any]:
    lists: dict[str, list[Any]] = {name: [] for name in LISTS}
    lists["records"] = [{"n": number, "text": "x" * 100} for number in range(count)]
    lists["messages"] = [{"n": number} for number in range(count)]
    return {"id": "a1", "status": "done", **lists}


def test_pages_have_all_differences_once() -> None:
    report, pages, start = make_report(50), list[dict[str, Any]](), 0
    while True:
        page, following = cut_page(report, start, 1000)
        pages.append(page)
        if following is None:
            break
        assert following > start
        start = following

    assert len(pages) > 5 and all(len(orjson.dumps(page)) < 1200 for page in pages)
    for name in LISTS:
        assert [item for page in pages for item in page[name]] == report[name]


def test_the_versions_are_those_of_the_period_and_of_its_inputs() -> None:
    hashes = {5: "e" * 64, 4: "d" * 64, 3: "c" * 64, 2: "b" * 64, 1: "b" * 64}
    versions = [Deployed("p", "p", text, number, 10 * number) for number, text in hashes.items()]

    def served(*bundles: str) -> list[int]:
        return [one.version for one in find_served(versions, (35, 39), bundles)]

    assert served("") == [3]
    assert served("c" * 16) == [3]
    # An input waited for a retry since version 2, and another one ran after the deploy of 4.
    assert served("", "b" * 16, "d" * 16) == [4, 3, 2]


def test_a_report_is_removed_after_7_days(tmp_path: Path) -> None:
    write_report(tmp_path, "p", make_report(1))
    write_report(tmp_path, "p", make_report(1) | {"id": "b2"})
    folder = tmp_path / REPORTS / "p"
    old_s = time.time() - REPORT_S - 60
    os.utime(folder / "a1.json", (old_s, old_s))

    clear_copies(tmp_path)

    assert [path.name for path in folder.iterdir()] == ["b2.json"]
