"""A rehearsal shows what a changed bundle would have made of the same inputs, and nothing else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rehearsal.helpers import LivePipeline
from tests.support.bundles import make_bundle, make_memory, make_relay


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LivePipeline]:
    live = LivePipeline(tmp_path / "live", BUNDLE)
    yield live
    live.close()


BUNDLE = make_bundle("p", make_relay("write", "^/write (.*)"), make_memory("write"))


def test_the_same_bundle_has_no_difference(live: LivePipeline, tmp_path: Path) -> None:
    live.say("/write tea", "/write coffee", "hello")

    report = live.rehearse(tmp_path / "r", BUNDLE)

    assert report["equal"], report
    assert report["inputs"] == {"rehearsed": 3, "not_rehearsed": 0, "reasons": []}
    print(report)
