"""What `make` does with a .venv that is not as it was left; a stand-in for Python notes what it is
asked to do."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.child import CHECKOUT

STAND_IN = """#!/bin/sh
echo "$PYTHONHOME$PYTHONPATH$PYTHONDONTWRITEBYTECODE$*" >> "$NOTES"
case "$*" in
    "-m venv --clear .venv") rm -rf .venv && mkdir -p .venv/bin && cp "$0" .venv/bin/python;;
    *" -r requirements.lock") [ -z "$FAILS" ];;
    *" -e .") echo "#!$(pwd -P)/.venv/bin/python" > .venv/bin/memrelay;;
esac
"""
ANEW = "-m venv --clear .venv"


@pytest.fixture(name="checkout")
def a_checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "a checkout's é"
    folder.mkdir()
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(CHECKOUT / name, folder)
    (tmp_path / "python").write_text(STAND_IN)
    (tmp_path / "python").chmod(0o755)
    return folder


def asked(checkout: Path, **environment: str) -> list[str]:
    """What Python is asked by `make .venv/.installed`, but for whether it fits."""
    notes = checkout.parent / "notes"
    notes.write_text("")
    given = {
        "PATH": os.environ["PATH"],
        "NOTES": str(notes),
        "PYTHON": str(checkout.parent / "python"),
        **environment,
    }
    subprocess.run(
        ["make", ".venv/.installed"],
        cwd=checkout,
        env=given,
        check="FAILS" not in environment,
        capture_output=True,
    )
    return [line for line in notes.read_text().splitlines() if "ensurepip" not in line]


def test_what_is_installed_is_installed_once(checkout: Path) -> None:
    first = asked(checkout)

    assert first[0] == ANEW
    assert first[-1].endswith(" -e .")
    assert asked(checkout) == []


def test_an_installation_that_was_cut_short_begins_anew(checkout: Path) -> None:
    asked(checkout, FAILS="yes")

    assert asked(checkout)[0] == ANEW
    assert asked(checkout) == []


def test_a_checkout_that_was_moved_or_copied_gets_a_venv_of_its_own(checkout: Path) -> None:
    asked(checkout)
    copied, moved = checkout.parent / "copied", checkout.parent / "moved"
    shutil.copytree(checkout, copied)
    checkout.rename(moved)

    assert asked(copied)[0] == ANEW
    assert asked(moved)[0] == ANEW


def test_a_venv_whose_python_is_gone_is_made_anew(checkout: Path) -> None:
    asked(checkout)
    (checkout / ".venv/bin/python").unlink()
    (checkout / ".venv/bin/python").symlink_to("/nowhere/python3")

    assert asked(checkout)[0] == ANEW


def test_new_requirements_are_installed_into_the_venv_that_is_there(checkout: Path) -> None:
    asked(checkout)
    os.utime(checkout / "requirements.lock", (2**31, 2**31))

    again = asked(checkout)

    assert ANEW not in again
    assert again[0].endswith(" -r requirements.lock")


def test_where_a_users_python_looks_for_modules_is_not_where_ours_does(checkout: Path) -> None:
    told = asked(checkout, PYTHONHOME="/usr", PYTHONPATH="/elsewhere")

    assert told[0] == ANEW
    assert not [line for line in told if line.startswith("/")]


def test_what_is_compiled_is_kept_whatever_a_user_has_set(checkout: Path) -> None:
    told = asked(checkout, PYTHONDONTWRITEBYTECODE="compiled every time")

    assert told[0] == ANEW
    assert not [line for line in told if "compiled every time" in line]
