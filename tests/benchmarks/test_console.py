"""The console benchmark in a small form: it measures all pages and everything else."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.console import RENDERS, list_pages
from benchmarks.support.console_store import Guids

CHECKOUT = Path(__file__).resolve().parents[2]


def test_the_benchmark_measures_every_page_with_its_reads(tmp_path: Path) -> None:
    small = ["--records", "1000", "--rounds", "1", "--calls", "2", "--polls", "1"]
    command = [sys.executable, CHECKOUT / "benchmarks" / "console.py", *small]
    subprocess.run([*command, "--json", tmp_path / "found.json"], check=True, capture_output=True)

    found = json.loads((tmp_path / "found.json").read_text())

    (measured,) = found["rounds"]
    names = set(list_pages(Guids("", "")))
    assert set(measured["renders"]) == set(measured["pages"]) == names and found["assets"] > 0
    assert all(one[key] > 0 for one in measured["renders"].values() for key in RENDERS)
    assert all(one["many"]["unchanged"] > 0 for one in measured["pages"].values())
    assert measured["pages"]["search"]["bytes"] > measured["pages"]["longest texts"]["bytes"]
