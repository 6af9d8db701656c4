"""The size of the ranking code."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.recall.size import EXEMPT, FOLDER, count_constants, measure, read_checkout

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("text", "constants"),
    [
        ("HALF = 0.5", 1),
        ("MOST: int = 1 << 15", 1),
        ("A, B = 1, 2", 2),
        ("A = B = 3", 2),
        ("_EMPTY = np.zeros(0)", 1),
        ("BOUNDS = (1, 2, 3)", 1),
        ("WEIGHTS = {'a': 1.5, 'b': -2, 'c': None}", 2),
        ("NAME = 'of 5'", 0),
        ("ON = True", 0),
        ("lower = 1", 0),
        ("NONE: int", 0),
        ("print(NAME, 1)", 0),
        ("def f(a=1):\n    LOCAL = 2", 0),
    ],
)
def test_numeric_constants_are_names_in_capitals_of_a_module(text: str, constants: int) -> None:
    assert count_constants(text) == constants


def test_embedders_and_exempt_modules_are_no_part_of_the_ranking() -> None:
    lines, constants = measure(
        {
            f"{FOLDER}/ranker.py": "\n\nA = 1\n",
            f"{FOLDER}/text/words.py": "B = 1\n",
            f"{FOLDER}/embedding/local.py": "C = 1\n",
            EXEMPT[0]: "D = {'a': 1, 'b': 2}\n",
        }
    )

    assert (lines["ranking"], lines["embedders"], lines["exempt"]) == (4, 1, 1)
    assert (constants["ranking"], constants["embedders"], constants["exempt"]) == (2, 1, 2)


def test_the_size_of_a_commit_is_printed_before_that_of_the_checkout() -> None:
    program = CHECKOUT / "benchmarks/recall/size.py"
    printed = subprocess.check_output([sys.executable, program, "HEAD"], text=True).splitlines()

    lines = measure(read_checkout())[0]
    files = list((CHECKOUT / FOLDER).rglob("*.py"))
    counted = subprocess.check_output(["cat", *files], text=True).count("\n")
    assert [line.split()[:2] for line in printed[::3]] == [["HEAD", "ranking"], ["now", "ranking"]]
    assert int(printed[3].split()[2]) == lines["ranking"] > 1000
    assert sum(lines.values()) == counted
