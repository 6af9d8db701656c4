"""Flow control of an agent (`wf_flow`): debounce, rate and batch, for each key of its messages."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from memrelay.blocks.contract import Call
from memrelay.blocks.json_values import OptionalExpression
from memrelay.memory.field_descriptions import DescribedModel
from memrelay.pipelines.expressions import Expression, compile_expression

LONGEST_S = 86_400
MAX_CALLS = 1000
RATE = re.compile(r"([0-9]{1,4})/([0-9]{1,5})s")
KINDS = ("debounce_s", "rate", "batch")


def parse_rate(rate: str) -> tuple[int, int]:
    """Return (calls, seconds) of a rate like `10/60s`, zeros for none. Raises ValueError."""
    if not rate:
        return 0, 0
    parts = RATE.fullmatch(rate)
    calls, window_s = (int(parts[1]), int(parts[2])) if parts is not None else (0, 0)
    if not (1 <= calls <= MAX_CALLS and 1 <= window_s <= LONGEST_S):
        raise ValueError(
            f"must be CALLS/SECONDS with an s, like 10/60s: at most {MAX_CALLS} calls in at most "
            f"{LONGEST_S} seconds"
        )
    return calls, window_s


def _check_rate(rate: str) -> str:
    parse_rate(rate)
    return rate


Seconds = Annotated[float, Field(gt=0, le=LONGEST_S, allow_inf_nan=False)]
_HAS_FORM = Field(json_schema_extra={"pattern": f"^{RATE.pattern}$"})
Rate = Annotated[str, AfterValidator(_check_rate), _HAS_FORM]


class BatchSpec(DescribedModel):
    """One call for several messages."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: Annotated[int, Field(ge=2, le=1000)]
    """Messages of a batch."""
    within_s: Seconds
    """Seconds after which a smaller batch is complete, from its first message on."""


class FlowSpec(DescribedModel):
    """When the block of an agent is called: for the last message of a burst, at a limited rate, or
    once for several messages."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "anyOf": [{"required": [kind]} for kind in KINDS],
            "not": {"required": ["debounce_s", "batch"]},
        },
    )

    key: OptionalExpression = ""
    """JMESPath expression over the JSON of the text, like `alert.host`. Messages with different
    values do not wait for each other. By default, all messages have the same key."""
    debounce_s: Seconds = 0
    """Call the block with the last message of a burst, after so many seconds without another."""
    rate: Rate = ""
    """Calls in any period of so many seconds, like `10/60s`; the other messages wait."""
    batch: BatchSpec | None = None
    """Call the block once for several messages. Its text is then the JSON list of their texts."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if not (self.debounce_s or self.rate or self.batch):
            raise ValueError("must have debounce_s, rate or batch")
        if self.debounce_s and self.batch:
            raise ValueError("must not have both debounce_s and batch: keep the last, or collect")
        return self


@dataclass(frozen=True, slots=True)
class Flow:
    """A compiled `wf_flow`. Times are in ms, and 0 stands for what is not set."""

    key: Expression | None = None
    debounce_ms: int = 0
    rate: int = 0
    window_ms: int = 0
    batch: int = 0
    within_ms: int = 0

    @classmethod
    def compile(cls, spec: FlowSpec) -> Self:
        """Return the compiled form of a valid specification."""
        rate, window_s = parse_rate(spec.rate)
        return cls(
            compile_expression(spec.key) if spec.key else None,
            round(1000 * spec.debounce_s),
            rate,
            1000 * window_s,
            spec.batch.size if spec.batch is not None else 0,
            round(1000 * spec.batch.within_s) if spec.batch is not None else 0,
        )

    def hold(self, call: Call, args: Any) -> "Flow":
        """Stand in the place of the block: the worker decides when that is called."""
        return self

    @property
    def has_only_rate(self) -> bool:
        """Return whether a message may run at once if the rate allows it."""
        return not (self.debounce_ms or self.batch)

    def keep_recent(self, starts: Sequence[int], now_ms: int) -> tuple[int, ...]:
        """Return the starts that count at that time. A clock that was set back counts as now."""
        recent = [min(at, now_ms) for at in starts if at > now_ms - self.window_ms]
        return tuple(recent[-self.rate :]) if self.rate else ()

    def count_free(self, starts: Sequence[int], now_ms: int, most: int) -> int:
        """Return how many messages may start, at most `most`."""
        if not self.rate:
            return most
        return min(most, self.rate - len(self.keep_recent(starts, now_ms)))

    def next_start_ms(self, starts: Sequence[int], now_ms: int, before: int = 0) -> int:
        """Return when a message may start that has `before` messages before it."""
        recent = self.keep_recent(starts, now_ms)
        rounds, index = divmod(len(recent) + before, self.rate) if self.rate else (0, 0)
        return (recent[index] if rounds and index < len(recent) else now_ms) + (
            rounds * self.window_ms
        )
