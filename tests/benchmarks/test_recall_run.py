"""The command on tiny data, and search quality on the development data if it is present."""

import json
import subprocess
import sys
from pathlib import Path
from statistics import mean

import pytest

from benchmarks.recall.data_sets import collections
from benchmarks.recall.process import Failed, NotRun, checkout, has_peers, run_trial
from benchmarks.recall.product import Product
from benchmarks.recall.queries.nonsense import make_queries
from benchmarks.recall.queries.variants import VARIANTS, change
from benchmarks.recall.report import as_json
from benchmarks.recall.systems import PEERS
from benchmarks.recall.trial import run
from tests.benchmarks.datasets import ask, conversation, write_beir, write_locomo

CHECKOUT = Path(__file__).resolve().parents[2]
DEVELOPMENT = CHECKOUT.parent / "shared" / "data"
# A little below the measured values (docs/recall.md), so that a new version of a library
# does not fail the test.
FLOORS = {
    "locomo": {"turn@5": 0.745, "turn@10": 0.815, "session@5": 0.88, "session@10": 0.925},
    "cranfield": {"nDCG@10": 0.38},
}
# turn@10 of other forms of LoCoMo's questions
VARIANT_FLOORS = {
    "long": 0.8,
    "typo": 0.81,
    "typos": 0.8,
    "nameless": 0.8,
    "pooled": 0.8,
    "shortnames": 0.81,
    "surnames": 0.81,
}


def bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, CHECKOUT / "benchmarks" / "recall" / "run.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_run_prints_tables_and_writes_json(tmp_path: Path) -> None:
    write_locomo(
        tmp_path / "locomo",
        conversation(
            ask("What is Ben's puppy called?", "D1:2"), ask("Which slugs?", "D2:3", category=1)
        ),
    )
    target = tmp_path / "figures" / "recall.json"

    done = bench("--data", str(tmp_path), "--json", str(target), "--only", "FTS5", "Memrelay")

    assert (done.returncode, done.stderr) == (0, "")
    assert "| Memrelay | 1.000 (1.00 to 1.00) |" in done.stdout
    [locomo] = json.loads(target.read_text())
    assert locomo["systems"]["Memrelay"]["figures"]["single-hop"]["turn@5"] == {
        "mean": 1.0,
        "low": 1.0,
        "high": 1.0,
    }
    assert set(locomo["sha256"]) == {"some_conversations.json", "some_audit.json"}
    assert locomo["systems"]["FTS5"]["peak_bytes"] > 1 << 20
    assert locomo["systems"]["Memrelay"]["nonsense_answered"] <= 0.05


def test_a_run_is_compared_with_the_systems_of_a_commit(tmp_path: Path) -> None:
    data = str(write_beir(tmp_path / "drinks"))
    options = ("--data", data, "--only", "FTS5", "Memrelay")

    earlier = bench(*options, "--commit", "HEAD", "--json", str(tmp_path / "earlier.json"))
    done = bench(
        *options, "--earlier", str(tmp_path / "earlier.json"), "--json", str(tmp_path / "now.json")
    )

    assert (earlier.returncode, done.returncode, done.stderr) == (0, 0, "")
    heading, no_difference = "### Difference to the earlier run", "+0.000 (0.000 to 0.000)"
    assert heading not in earlier.stdout and heading in done.stdout
    assert "### Difference to Memrelay" in done.stdout
    assert done.stdout.endswith(f"| Memrelay | {no_difference} | {no_difference} |\n\n")
    [found] = json.loads((tmp_path / "now.json").read_text())
    assert found["systems"]["FTS5"]["values"]["nDCG@10"] == [1.0]


def test_systems_of_a_commit_run_the_code_of_that_commit(tmp_path: Path) -> None:
    data = str(write_beir(tmp_path / "drinks"))

    done = bench("--data", data, "--only", "FTS5", "--commit", "no-such-commit")

    assert (done.returncode, done.stdout) == (1, "")
    assert "commit no-such-commit: " in done.stderr
    with checkout("HEAD") as code:
        assert code != CHECKOUT and (code / "memrelay").is_dir()
        (code / "benchmarks/recall/systems.py").write_text("SYSTEMS = {}")
        with pytest.raises(NotRun, match="FTS5: not run, because that commit has no such system"):
            run_trial(code, collections(Path(data))[0], "FTS5")
        (code / "benchmarks/recall/systems.py").write_text("SYSTEMS = 1 / 0")
        with pytest.raises(Failed, match="FTS5"):
            run_trial(code, collections(Path(data))[0], "FTS5")


@pytest.mark.skipif(not has_peers(), reason="the peers are not installed: make recall-peers")
@pytest.mark.parametrize("name", PEERS)
def test_a_peer_finds_the_evidence_of_a_question(name: str, tmp_path: Path) -> None:
    question = ask("Who adopted a puppy called Biscuit?", "D1:2")
    [collection] = collections(write_locomo(tmp_path / "locomo", conversation(question)))

    trial = run_trial(CHECKOUT, collection, name)

    assert trial.values["turn@5"] == [1.0] and trial.documents == 5


@pytest.mark.skipif(has_peers(), reason="the peers are installed")
def test_a_peer_that_is_not_installed_is_skipped_with_a_line(tmp_path: Path) -> None:
    data = str(write_beir(tmp_path / "drinks"))

    done = bench("--data", data, "--only", "FTS5", "Chroma", "--json", str(tmp_path / "now.json"))

    assert done.returncode == 0 and "| FTS5 |" in done.stdout
    assert done.stderr == "Chroma: not run, because it is not installed: make recall-peers\n"


def test_a_run_without_data_prints_what_to_pass() -> None:
    done = bench()

    assert (done.returncode, done.stdout) == (2, "")
    assert "make bench-recall DATA=FOLDER" in done.stderr


def test_nonsense_queries_depend_only_on_the_seed() -> None:
    assert make_queries() == make_queries() != make_queries(1)
    assert len(make_queries()) == 200


@pytest.mark.parametrize("name", FLOORS)
@pytest.mark.skipif(
    not DEVELOPMENT.is_dir(), reason="the development data is no part of the project"
)
def test_search_quality_on_the_development_data_stays_above_the_floor(name: str) -> None:
    [collection] = collections(DEVELOPMENT / name)

    measured = as_json(collection, {"Memrelay": run(collection, Product)})["systems"]["Memrelay"]

    figures = {measure: measured["figures"]["all"][measure]["mean"] for measure in FLOORS[name]}
    assert {
        measure: mean for measure, mean in figures.items() if mean < FLOORS[name][measure]
    } == {}
    assert measured["nonsense_answered"] <= 0.05


@pytest.mark.parametrize("variant", VARIANT_FLOORS)
@pytest.mark.skipif(
    not DEVELOPMENT.is_dir(), reason="the development data is no part of the project"
)
def test_other_forms_of_the_questions_find_nearly_as_much(variant: str) -> None:
    [collection] = collections(DEVELOPMENT / "locomo")

    found = run(change(collection, variant), Product)

    assert mean(found.values["turn@10"]) >= VARIANT_FLOORS[variant]
    assert found.nonsense_share <= 0.05 and found.empty_share <= 0.01


def test_a_variant_changes_the_questions_alone_and_always_in_the_same_way(tmp_path: Path) -> None:
    annotated = conversation(ask("What does Ann's puppy eat?", "D1:2"))
    [collection] = collections(write_locomo(tmp_path / "other", annotated, annotated))

    texts = {name: change(collection, name).corpora[0].questions[0].text for name in VARIANTS}

    assert texts == {n: change(collection, n).corpora[0].questions[0].text for n in VARIANTS}
    assert texts["nameless"] == "What does my puppy eat?"
    assert texts["long"].endswith(" What does Ann's puppy eat?") and len(texts["long"]) > 150
    assert change(collection, "surnames").corpora[0].documents[0].source == "Ann Brown"
    assert len({texts["typo"], texts["typos"], texts["pooled"]}) == 3
    pooled = change(collection, "pooled").corpora
    assert len(pooled) == 1 and len(pooled[0].documents) == 10
    assert pooled[0].questions[1].gold == {"1:D1:2": 1.0}
