"""Makes the report of a rehearsal."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.models.inputs.packing import KeptInput
from memrelay.rehearsal.difference import Difference, NoteDifference, RecordDifference, diff_words
from memrelay.rehearsal.runner import WEBHOOK_BLOCK, Requested

MAX_REPORT_BYTES = 20 << 20
# Bytes that the parts of a report leave for what is not counted.
MARGIN_BYTES = 1 << 20
# Characters of a text in the report.
MAX_TEXT = 4000
# Inputs that are named for a reason.
MOST_NAMED = 20


class ReportBuilder:
    """Makes the parts of a report that compare two runs, within MAX_REPORT_BYTES."""

    def __init__(self, inputs: Sequence[KeptInput]) -> None:
        self._inputs = inputs
        self._bytes = 0
        self._is_cut = False

    def build(self, difference: Difference) -> dict[str, Any]:
        """Return the counts and lists of differences.

        `truncated` means that the lists lack some, which are counted.
        """
        webhooks, requests = _split(difference.requests)
        notes = {
            "decisions": difference.decisions,
            "messages": difference.messages,
            "dead_letters": difference.dead_letters,
            "webhooks": webhooks,
            "requests": requests,
            "deliveries": difference.deliveries,
        }
        counts: dict[str, int] = {f"records_{one}": 0 for one in ("added", "missing", "changed")}
        for one in difference.records:
            counts[f"records_{one.change}"] += 1
        counts |= {name: len(found) for name, found in notes.items()}
        lists = {"records": self._fit(map(self._record, difference.records))}
        lists |= {name: self._fit(map(self._note, found)) for name, found in notes.items()}
        sources = [
            {"then": old, "candidate": new, "records": count}
            for (old, new), count in sorted(difference.sources.items())
        ]
        is_equal = not any(counts.values())
        return {
            "equal": is_equal,
            "counts": counts,
            **lists,
            "sources": sources,
            "order": difference.order,
            "truncated": self._is_cut,
        }

    def name_inputs(self, reasons: Iterable[tuple[int, str]]) -> list[dict[str, Any]]:
        """Return the reasons why inputs were not rehearsed, each with its first inputs."""
        by_reason: dict[str, list[int]] = defaultdict(list)
        for number, reason in sorted(reasons):
            by_reason[reason].append(number)
        return [
            {
                "reason": reason,
                "count": len(numbers),
                "inputs": [self._inputs[number].id for number in numbers[:MOST_NAMED]],
            }
            for reason, numbers in by_reason.items()
        ]

    def _fit(self, items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the items that still fit into the report."""
        kept = []
        for item in items:
            size = len(orjson.dumps(item))
            if self._bytes + size > MAX_REPORT_BYTES - MARGIN_BYTES:
                self._is_cut = True
                break
            self._bytes += size
            kept.append(item)
        return kept

    def _record(self, one: RecordDifference) -> dict[str, Any]:
        then, candidate = one.pair
        known = candidate or then
        assert known is not None
        state = (then and then.state) or (candidate and candidate.state)
        assert state is not None
        item: dict[str, Any] = {
            "change": one.change,
            "store": known.store,
            "kind": known.kind or state.kind,
            "input": self._id_of(known.input),
            "at": format_time(state.created_at),
            "then": None if then is None or then.state is None else _view(then.guid, then.state),
            "candidate": None
            if candidate is None or candidate.state is None
            else _view(candidate.guid, candidate.state),
        }
        if one.fields:
            fields = {name: [_clip(a), _clip(b)] for name, (a, b) in one.fields.items()}
            item["fields"] = fields
            if "content" in fields:
                item["words"] = diff_words(*fields["content"])
        return item

    def _note(self, one: NoteDifference) -> dict[str, Any]:
        return {
            "input": self._id_of(one.input),
            "then": _as_json(one.then),
            "candidate": _as_json(one.candidate),
        }

    def _id_of(self, number: int | None) -> str:
        return "" if number is None else self._inputs[number].id


def compare_verdicts(
    then: Counter[tuple[str, str]], candidate: Counter[tuple[str, str]]
) -> list[dict[str, Any]]:
    """Return how often each policy has acted on both sides. Both counters are by its name and
    action.
    """
    return [
        {"policy": policy, "action": action, "then": then[key], "candidate": candidate[key]}
        for key in sorted({*then, *candidate})
        for policy, action in [key]
    ]


def _view(guid: str, state: Any) -> dict[str, Any]:
    return {
        "guid": guid,
        "content": _clip(state.content),
        "kind": state.kind,
        "source": state.source,
        "key": state.key,
        "tags": state.tags,
        "data": _clip(state.data),
    }


def _clip(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return f"{value[:MAX_TEXT]}..."
    return value


def _as_json(note: Any) -> dict[str, Any] | None:
    if note is None:
        return None
    return {name: _clip(value) for name, value in note._asdict().items() if name != "sender"}


def _split(
    requests: Sequence[NoteDifference],
) -> tuple[list[NoteDifference], list[NoteDifference]]:
    """Return the webhooks that would be sent, and other requests."""
    webhooks, others = list[NoteDifference](), list[NoteDifference]()
    for one in requests:
        request: Requested = one.then or one.candidate
        (webhooks if request.block == WEBHOOK_BLOCK else others).append(one)
    return webhooks, others
