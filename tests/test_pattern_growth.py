"""No regular expression of the product takes more than linear time, whatever text it gets.

A pattern holds the interpreter while it runs, so a slow one stops every pipeline of a process.
"""

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from types import FrameType, ModuleType
from typing import Any

import pytest

from tests.architecture.source import Source, sources
from tests.support.patterns import (
    FoundPattern,
    HostileText,
    find_patterns,
    hostile_texts,
    in_module,
    in_source,
)

QUICK_SIZES = (4 << 10,)
SIZES = (1 << 10, 4 << 10, 16 << 10, 64 << 10)
# Processor time of one run, seconds per character, that is not judged: about ten times that of
# the slowest pattern.
FLOOR_S = 1e-6
# Growth of the time from a quarter of a size to the size: 4 if it is linear, 16 if quadratic.
MOST_GROWTH = 8
# Processor time after which a run ends: an exponential pattern never would.
PATIENCE_S = 1.0


@pytest.fixture(scope="module", autouse=True)
def release_trees() -> Iterator[None]:
    """Free the syntax trees, which take hundreds of MB."""
    yield
    sources.cache_clear()


@pytest.mark.parametrize(
    ("loads_all", "sizes"),
    [(False, QUICK_SIZES), pytest.param(True, SIZES, marks=pytest.mark.slow)],
    ids=["quick", "full"],
)
def test_every_pattern_takes_linear_time(loads_all: bool, sizes: tuple[int, ...]) -> None:
    patterns = find_patterns(loads_all=loads_all)

    assert len(patterns) > 150
    assert [fault for one in patterns if (fault := find_growth(one, sizes))] == []


SLOW = {
    "exponential": r"(a+)+b",
    "the former _LOOSE": r"[\"'()\[\]{};:!.,]+(?=\s|$)|(?<!\S)[\"'(\[{]+|^[-*]\s+",
    "quadratic in a search": r"\s+$",
    "quadratic between words": r"\w+\s*=\s*\d",
    "cubic": r"a*a*a*b",
}


@pytest.mark.parametrize("source", SLOW.values(), ids=SLOW)
def test_a_planted_pattern_is_noticed(source: str) -> None:
    assert find_growth(FoundPattern("here", re.compile(source)), QUICK_SIZES)


PLANTED = """
import re
from functools import partial
from pydantic import Field

LETTER = "p"
GLOBAL = re.compile(r"global")
NESTED = {"one": [(re.compile("nested"),)], "two": partial(re.split, re.compile("partial"))}
METHOD = re.compile("method").match
FIELD = Field(pattern="field")

class Holder:
    PATTERN = re.compile("class")

def use(text, unknown, pattern=re.compile("default")):
    re.sub(rf"li{LETTER}{unknown}", "", text)
    return re.compile(unknown.name + "late").fullmatch(text) or GLOBAL.match(text)
"""


def test_a_new_pattern_is_found() -> None:
    module = ModuleType("planted")
    exec(PLANTED, vars(module))
    source = Source.of("planted.py", PLANTED)

    found = [*in_module(module), *in_source(source, module)]

    assert {one.pattern.pattern for one in found} == {
        *("global", "nested", "partial", "method", "class", "default"),
        *("field", "lipx", "xlate"),
    }


def find_growth(found: FoundPattern, sizes: tuple[int, ...]) -> str:
    """Return on which text a pattern takes more than linear time, "" if on none."""
    pattern = found.pattern
    texts = hostile_texts(pattern, most_units=12 if len(sizes) > 1 else 6)
    for text, size, use in product(texts, sizes, found.uses):
        if is_superlinear(partial(METHODS[use], pattern), encoded(pattern, text), size):
            return f"{found.where}: {pattern.pattern!r} on {text} of {size} characters"
    return ""


def search_all(pattern: re.Pattern[Any], text: str | bytes) -> None:
    for _ in pattern.finditer(text):
        pass


METHODS = {"search": search_all, "match": re.Pattern.match, "fullmatch": re.Pattern.fullmatch}


def encoded(pattern: re.Pattern[Any], text: HostileText) -> Callable[[int], str | bytes]:
    if isinstance(pattern.pattern, str):
        return text.make
    return lambda size: text.make(size).encode("latin-1", "replace")


def is_superlinear(
    run: Callable[[Any], object], make: Callable[[int], str | bytes], size: int
) -> bool:
    try:
        if measure(run, make(size)) <= FLOOR_S * size:
            return False
        small, large = make(size // 4), make(size)
        return best(run, large) > MOST_GROWTH * max(best(run, small), FLOOR_S)
    except TimeoutError:
        return True


def best(run: Callable[[Any], object], text: str | bytes) -> float:
    return min(measure(run, text) for _ in range(3))


def measure(run: Callable[[Any], object], text: str | bytes) -> float:
    """Return the processor time of a run. Raises TimeoutError after PATIENCE_S."""
    began = time.thread_time()
    with time_limit():
        run(text)
    return time.thread_time() - began


@contextmanager
def time_limit() -> Iterator[None]:
    before = signal.signal(signal.SIGVTALRM, end_run)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def end_run(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError
