"""At least 36 of 40 questions of users get the answer that they expect, by words alone."""

from collections import Counter
from pathlib import Path

from tests.memory.builders import make_store, perform_at, write_all
from tests.support.recall_probes import PROBES, Probe

NOW = 1_795_694_400_000  # Thursday, 26 November 2026, 12:00
DAY_MS = 86_400_000
REQUIRED = 36


def answer(root: Path, probe: Probe) -> str:
    """Return the text of the first hit, "" without any."""
    store = make_store(root)
    for days, text in probe.notes:
        write_all(store, text, now_ms=NOW - days * DAY_MS)
    found = perform_at(
        store, NOW, "records.search", query=probe.query, mode="hybrid", **dict(probe.options)
    )
    store.close()
    return found.items[0].record.content if found.items else ""


def test_users_get_the_expected_answers(tmp_path: Path) -> None:
    failed = [
        f"{probe.kind}: {probe.query!r} found {found!r}"
        for number, probe in enumerate(PROBES)
        if (found := answer(tmp_path / str(number), probe)) != probe.first
    ]

    assert len(PROBES) == 40 and set(Counter(probe.kind for probe in PROBES).values()) == {5}
    assert len(failed) <= len(PROBES) - REQUIRED, "\n".join(failed)
