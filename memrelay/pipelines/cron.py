"""Cron schedules: the check of an expression, and its times in a zone.

The expressions and their behavior at changes of daylight saving are those of Debian's cron.
"""

import importlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memrelay.memory.engine.time_zones import find_zone

if TYPE_CHECKING:
    from cronsim import CronSim

LIBRARY = "cronsim"  # loaded at the first schedule, since most pipelines have none
MAX_LENGTH = 200
MINUTE_MS = 60_000
# Values of each field. A list, a range and a step are allowed too.
FIELDS = {
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31 or L, and a day that one of its months has",
    "month": "1-12 or JAN-DEC",
    "day-of-week": "0-7 or SUN-SAT",
}
_FIELD = "[0-9A-Za-z*,/#-]+"
PATTERN = f"^({_FIELD}( +{_FIELD}){{4}})?$"
_FORM = re.compile(PATTERN)
_RULE = f'must have five fields: {" ".join(FIELDS)}; write it like "0 9 * * MON-FRI"'


def check_cron(text: str) -> str:
    """Return a cron expression, or "". Raises ValueError that names the rule and the fix."""
    if not _FORM.fullmatch(text):
        raise ValueError(_RULE)
    if not text:
        return ""
    try:
        next(_iterate(text, datetime(2026, 1, 1, tzinfo=UTC)))
    except importlib.import_module(LIBRARY).CronSimError as error:
        name = str(error).removeprefix("Bad ")
        if name not in FIELDS:
            raise ValueError(_RULE) from error
        value = dict(zip(FIELDS, text.split(), strict=True))[name]
        raise ValueError(f'invalid {name} "{value}"; use {FIELDS[name]}') from error
    except StopIteration as error:
        raise ValueError("no date of the next 50 years matches; change the day") from error
    return text


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """A valid cron expression in the time zone with this name. Its times are slots."""

    expression: str
    timezone: str

    @property
    def key(self) -> str:
        """Return a name without spaces, which differs between schedules."""
        return f"{'_'.join(self.expression.upper().split())}@{self.timezone}"

    def find_next(self, after_ms: int) -> int | None:
        """Return the first slot after a time, both in Unix ms. None: not within 50 years."""
        after = datetime.fromtimestamp(after_ms // 1000, find_zone(self.timezone))
        for slot in _iterate(self.expression, after):
            slot_ms = int(slot.timestamp()) * 1000
            # Within the hour that a change repeats, the first results may lie before the start.
            if slot_ms > after_ms:
                return slot_ms
        return None

    def find_last(self, since_ms: int, now_ms: int) -> int | None:
        """Return the last slot after `since_ms` and up to `now_ms`, in Unix ms, or None."""
        found = self._find_next_until(since_ms, now_ms)
        if found is None:
            return None
        least, most = found // MINUTE_MS, now_ms // MINUTE_MS  # minutes; slots are whole minutes
        while least < most:
            middle = (least + most) // 2
            later = self._find_next_until(middle * MINUTE_MS, now_ms)
            if later is None:
                most = middle
            else:
                least = later // MINUTE_MS
        return least * MINUTE_MS

    def _find_next_until(self, after_ms: int, now_ms: int) -> int | None:
        slot_ms = self.find_next(after_ms)
        return slot_ms if slot_ms is not None and slot_ms <= now_ms else None


def _iterate(expression: str, after: datetime) -> "CronSim":
    """Return an iterator over the slots. Raises CronSimError: the expression is invalid."""
    iterator: CronSim = importlib.import_module(LIBRARY).CronSim(expression, after)
    return iterator
