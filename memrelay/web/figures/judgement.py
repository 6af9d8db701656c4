"""Judges figures by what is normal for this installation, or by fixed bounds without a history."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from memrelay.web.console.format import format_age, format_bytes, format_count

MS = 1e-3


class Judgement(NamedTuple):
    """A figure as text, with its state `good`, `slow` or `bad`, and the reason for it.

    `note` is "" if the figure is good.
    """

    text: str
    state: str
    note: str = ""

    @property
    def is_good(self) -> bool:
        """Return whether nothing is unusual."""
        return self.state == "good"


class _Rule(NamedTuple):
    """The bounds of a figure: `slow` and `bad` without a history.

    With one, a figure is slow above `factor` times the normal value, but not below `least`. Above
    `bad` it is always bad.
    """

    format: Callable[[float], str]
    word: str
    slow: float
    bad: float
    least: float
    factor: float = 4.0


def format_duration(seconds: float) -> str:
    """Return a duration with a suitable unit, such as 204 ms."""
    if seconds < 1:
        ms = seconds * 1000
        return f"{ms:.0f} ms" if ms >= 10 or not ms else f"{ms:.1f} ms"
    return format_age(seconds)


def _count(value: float) -> str:
    return format_count(round(value))


def _bytes(value: float) -> str:
    return format_bytes(round(value))


RULES = {
    "p95_s": _Rule(format_duration, "slow", 0.25, 5.0, 20 * MS),
    "delivery_p95_s": _Rule(format_duration, "slow", 5.0, 30.0, 1.0),
    "oldest_s": _Rule(format_duration, "late", 10.0, 300.0, 5.0),
    "loop_lag_ms": _Rule(lambda ms: format_duration(ms * MS), "slow", 250.0, 2_000.0, 250.0),
    "waiting": _Rule(_count, "many", 1_000, 8_000, 100),
    "vectors_todo": _Rule(_count, "many", 5_000, 1_000_000, 1_000),
    "wal_bytes": _Rule(_bytes, "large", 256 << 20, 2 << 30, 64 << 20),
}
# Free space of a disk, where less is worse.
LOW_DISK, FULL_DISK = 5 << 30, 1 << 30


def judge(figure: str, value: float, normal: Mapping[str, float]) -> Judgement:
    """Return a figure with a judgement. `normal` has the usual values by figure."""
    if figure == "disk_free_bytes":
        return _judge_disk(value)
    rule, usual = RULES[figure], normal.get(figure)
    bound = rule.slow if usual is None else max(rule.least, rule.factor * usual)
    text = rule.format(value)
    if value <= bound and value <= rule.bad:
        return Judgement(text, "good")
    state = "bad" if value > rule.bad else "slow"
    expected = (
        f"at most {rule.format(bound)} is expected"
        if usual is None
        else f"normal is {rule.format(usual)}"
    )
    return Judgement(text, state, f"{rule.word}; {expected}")


def is_above_normal(figure: str, value: float, normal: Mapping[str, float]) -> bool:
    """Return whether a figure is higher than it should be."""
    return not judge(figure, value, normal).is_good


def _judge_disk(free: float) -> Judgement:
    text = format_bytes(round(free))
    if free >= LOW_DISK:
        return Judgement(text, "good")
    state = "bad" if free < FULL_DISK else "slow"
    return Judgement(text, state, f"low; make room, at least {format_bytes(LOW_DISK)}")
