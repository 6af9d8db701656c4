"""Chooses the test cases that run with every change."""

from collections.abc import Iterable
from typing import Any

import pytest


def first_always(*cases: Any, ids: Iterable[str] = ()) -> list[Any]:
    """Return the cases for `parametrize`: the first runs with every change, the others are slow.

    For tests in which each case starts a server or a worker, and the first covers most of the path.
    """
    first, *others = (
        pytest.param(*(case if isinstance(case, tuple) else (case,)), id=name)
        for case, name in zip(cases, [*ids] or [None] * len(cases), strict=True)
    )
    slow = [pytest.param(*one.values, id=one.id, marks=pytest.mark.slow) for one in others]
    return [first, *slow]
