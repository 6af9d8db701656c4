"""The console benchmark in a small form: it measures all pages and everything else."""

from argparse import Namespace

import pytest

from benchmarks.console import RENDERS, list_pages, run
from benchmarks.support.console_store import Guids


@pytest.mark.slow
def test_the_benchmark_measures_every_page_with_its_reads() -> None:
    options = Namespace(records=1000, rounds=1, calls=2, polls=1, embedding="none")

    found = run(options)

    (measured,) = found["rounds"]
    names = set(list_pages(Guids("", "")))
    assert set(measured["renders"]) == set(measured["pages"]) == names and found["assets"] > 0
    assert all(one[key] > 0 for one in measured["renders"].values() for key in RENDERS)
    assert all(one["many"]["unchanged"] > 0 for one in measured["pages"].values())
    assert measured["pages"]["search"]["bytes"] > measured["pages"]["longest texts"]["bytes"]
