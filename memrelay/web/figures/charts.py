"""Charts of recorded figures as shapes and texts for a template, and a list of what happened.

All charts of a page have the same columns, so that one look at a time shows everything.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from memrelay.memory.control.figures_file import DAY_S, Mark, Step, merge
from memrelay.memory.engine.timestamps import format_time
from memrelay.web.console.format import format_age, format_bytes, format_count
from memrelay.web.figures.judgement import format_duration, is_above_normal, judge
from memrelay.web.figures.reading import Recorded

HEIGHT = 100
HOUR_S = 3_600
# Seconds of a column, and between two labels of the axis, for recorded times up to a length.
SCALES = (
    (2 * HOUR_S, 60, 900),
    (8 * HOUR_S, 300, HOUR_S),
    (DAY_S, 600, 6 * HOUR_S),
    (7 * DAY_S, HOUR_S, DAY_S),
)
# Seconds of a recorded step.
STEPS_S = {"day": 60, "week": 600}
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MAX_EVENTS = 40
# Steps of the same kind with at most this many steps between them are one event.
MAX_GAP = 5
# Unusual states of a step, the worst first.
KINDS = ("down", "dead", "unsent", "high")
EVENT_KINDS = (*KINDS, "refused")
# Counted faults, with the words for one and for several.
COUNTED = {
    "dead": ("dead letter", "dead letters"),
    "unsent": ("send failed", "sends failed"),
    "refused": ("refused webhook", "refused webhooks"),
}
# A worker that starts needs as long to take its pipelines.
DOWN_S = 12.0
# The least distance of two labels of marks, as a share of the width in percent.
LABEL_DISTANCE = 14.0
MARK_TITLES = {"deploy": "Deploy", "restart": "Restart", "backup": "Backup"}


class Column(NamedTuple):
    """The figures of a part of the width; none if nothing was recorded."""

    at: int
    step: Step


class _Spec(NamedTuple):
    """A chart. `read` returns its value of a step, None if there is none.

    `normal` is the figure whose usual value is drawn, "" for none.
    """

    title: str
    read: Callable[[Step], float | None]
    format: Callable[[float], str]
    normal: str = ""


def _count(value: float) -> str:
    return format_count(round(value))


def _rate(value: float) -> str:
    return f"{value:.2f}/s" if 0 < value < 1 else f"{value:,.1f}/s"


def _read_rate(step: Step) -> float | None:
    return step.get("done", 0) / step["seconds"] if step.get("seconds") else None


def _reader(name: str) -> Callable[[Step], float | None]:
    return lambda step: step.get(name)


CHARTS = (
    _Spec("Messages", _read_rate, _rate),
    _Spec("Waiting", _reader("waiting"), _count, "waiting"),
    _Spec("Time to commit (p95)", _reader("p95_s"), format_duration, "p95_s"),
    _Spec("Dead letters", _reader("dead"), _count),
    _Spec("Changes of memories", _reader("changes"), _count),
    _Spec("Searches", _reader("searches"), _count),
    _Spec("Webhooks delivered", _reader("delivered"), _count),
    _Spec("Webhook tries that failed", _reader("undelivered"), _count),
    _Spec("Size of stores", _reader("store_bytes"), lambda value: format_bytes(round(value))),
)


class Band(NamedTuple):
    """Highlighted columns: `off`, `down`, `dead` or `high`. Numbers are columns."""

    kind: str
    x: int
    width: int


class Tick(NamedTuple):
    """A label of the axis. `x` is in percent."""

    x: float
    at: str
    text: str
    anchor: str


class MarkLine(NamedTuple):
    """A vertical line. `x` is in percent. `label` is "" if there is no room for it."""

    x: float
    kind: str
    label: str
    title: str
    anchor: str


class Chart(NamedTuple):
    """A chart. Its paths have a width of 1 for each column, and the height HEIGHT."""

    title: str
    area: str
    line: str
    # The height of the usual value, None for none.
    normal_y: float | None
    now: str
    most: str
    label: str
    # The texts of the columns, "" for an unknown value.
    values: list[str]


class Event(NamedTuple):
    """Something that happened. `until` is "" for a moment. Times are RFC 3339.

    `took_ms` is the least time of messages that belong to it, 0 for any.
    """

    at: str
    until: str
    kind: str
    text: str
    took_ms: int = 0


class FigureView(NamedTuple):
    """The charts of a page, with everything that is written next to them.

    `since` is when the recording began, "" if that was before the span.
    """

    span: str
    charts: list[Chart]
    columns: int
    times: list[str]
    states: list[str]
    bands: list[Band]
    ticks: list[Tick]
    marks: list[MarkLine]
    events: list[Event]
    since: str = ""


def draw_charts(recorded: Recorded, titles: Collection[str]) -> dict[str, Chart]:
    """Return some charts by title, without those that have nothing to show."""
    columns = _make_columns(recorded, _find_scale(recorded).column_s)
    specs = (spec for spec in CHARTS if spec.title in titles)
    found = (_draw(spec, columns, recorded.normal) for spec in specs)
    return {chart.title: chart for chart in found if chart is not None}


def draw(recorded: Recorded) -> FigureView:
    """Return the charts of what was recorded."""
    scale = _find_scale(recorded)
    width_s = scale.column_s
    columns = _make_columns(recorded, width_s)
    states = [_classify(column.step, recorded.normal) for column in columns]
    start, length = columns[0].at, width_s * len(columns)

    def place(at: int) -> float:
        return round(100 * (at - start) / length, 2)

    return FigureView(
        recorded.span,
        list(filter(None, (_draw(spec, columns, recorded.normal) for spec in CHARTS))),
        len(columns),
        [format_time(column.at * 1000) for column in columns],
        states,
        _find_bands(states),
        [_make_tick(at, place(at), scale) for at in _list_ticks(scale, start, length)],
        _place_marks(recorded.marks, place),
        list_events(recorded),
        _find_begin(recorded),
    )


def _find_begin(recorded: Recorded) -> str:
    """Return when the recording began, "" if that was before the span."""
    first = recorded.steps[0][0] if recorded.steps else recorded.since
    is_late = first > recorded.since + HOUR_S
    return format_time(first * 1000) if is_late else ""


class _Scale(NamedTuple):
    """The time that charts show: from `since` on, in Unix seconds, in columns of some seconds."""

    since: int
    column_s: int
    tick_s: int


def _find_scale(recorded: Recorded) -> _Scale:
    """Return a scale for the recorded part of the span, at least the last hour."""
    first = recorded.steps[0][0] if recorded.steps else recorded.since
    since = max(recorded.since, min(first, recorded.until - HOUR_S))
    length, least_s = recorded.until - since, STEPS_S[recorded.span]
    fitting = [one for one in SCALES if one[0] >= length and one[1] >= least_s] or [SCALES[-1]]
    _, column_s, tick_s = fitting[0]
    return _Scale(since if since == recorded.since else since - column_s, column_s, tick_s)


def _make_columns(recorded: Recorded, width_s: int) -> list[Column]:
    """Return the columns of the recorded part of the span up to the current one."""
    since = _find_scale(recorded).since
    first = since - since % width_s + width_s
    last = recorded.until - recorded.until % width_s
    steps = dict[int, Step]()
    for at, step in recorded.steps:
        place = at - at % width_s
        steps[place] = merge(steps.get(place, {}), step)
    return [Column(at, steps.get(at, {})) for at in range(first, last + 1, width_s)]


def _classify(step: Step, normal: Mapping[str, float]) -> str:
    """Return what is unusual about a step, the worst first, "" for nothing."""
    if not step:
        return "off"
    return next((kind for kind in KINDS if _has(kind, step, normal)), "")


def _find_bands(states: Sequence[str]) -> list[Band]:
    bands, x = [], 0
    for state, group in groupby(states):
        width = len(list(group))
        if state:
            bands.append(Band(state, x, width))
        x += width
    return bands


def _draw(spec: _Spec, columns: Sequence[Column], normal: Mapping[str, float]) -> Chart | None:
    """Return a chart, None if there is nothing to show."""
    values = [spec.read(column.step) if column.step else None for column in columns]
    known = [value for value in values if value is not None]
    if not known or (not any(known) and spec.title.startswith(("Webhook", "Searches"))):
        return None
    most = max(known)
    scale = (HEIGHT - 4) / most if most else 0.0
    areas, lines, x = [], [], 0
    for is_known, group in groupby(values, lambda value: value is not None):
        run = list(group)
        if is_known:
            steps = " ".join(
                _draw_step(x + n, HEIGHT - scale * (v or 0)) for n, v in enumerate(run)
            )
            lines.append(f"M{steps[1:]}")
            areas.append(f"M{x} {HEIGHT} {steps} V{HEIGHT}Z")
        x += len(run)
    usual = normal.get(spec.normal)
    now, highest = spec.format(known[-1]), spec.format(most)
    return Chart(
        spec.title,
        " ".join(areas),
        " ".join(lines),
        round(HEIGHT - scale * usual, 1) if usual is not None and usual <= most else None,
        now,
        highest,
        f"{spec.title}: now {now}, at most {highest}",
        ["" if value is None else spec.format(value) for value in values],
    )


def _draw_step(x: int, y: float) -> str:
    return f"L{x} {y:.1f}H{x + 1}"


def _list_ticks(scale: _Scale, start: int, length: int) -> Iterable[int]:
    pause = scale.tick_s
    return range(start - start % pause + pause, start + length, pause)


def _make_tick(at: int, x: float, scale: _Scale) -> Tick:
    """Return a label in UTC. A script shows the viewer's time."""
    hour, minute = at % DAY_S // HOUR_S, at % HOUR_S // 60
    # 1970-01-01 was a Thursday.
    text = WEEKDAYS[(at // DAY_S + 3) % 7] if scale.tick_s == DAY_S else f"{hour:02}:{minute:02}"
    return Tick(x, format_time(at * 1000), text, _choose_anchor(x))


def _choose_anchor(x: float) -> str:
    return "start" if x < 6 else "end" if x > 94 else "middle"


def _place_marks(marks: Sequence[Mark], place: Callable[[int], float]) -> list[MarkLine]:
    """Return the lines of marks, one for each kind and place."""
    lines, labeled_x = dict[tuple[float, str], MarkLine](), -LABEL_DISTANCE
    for mark in marks:
        x, title = place(mark.at), MARK_TITLES[mark.kind]
        key = round(x), mark.kind
        if not 0 <= x <= 100 or key in lines:
            continue
        has_room = x - labeled_x >= LABEL_DISTANCE
        labeled_x = x if has_room else labeled_x
        text = f"{title}: {mark.subject}" if mark.subject else title
        lines[key] = MarkLine(
            x, mark.kind, title if has_room else "", text, "start" if x < 85 else "end"
        )
    return list(lines.values())


def list_events(recorded: Recorded) -> list[Event]:
    """Return what happened, the newest first: faults, jams, times without a record, and marks."""
    step_s = STEPS_S[recorded.span]
    events = [
        Event(format_time(mark.at * 1000), "", mark.kind, _describe_mark(mark))
        for mark in recorded.marks
    ]
    events += _list_gaps(recorded, step_s)
    for kind in EVENT_KINDS:
        found = [(at, step) for at, step in recorded.steps if _has(kind, step, recorded.normal)]
        for group in _join(found, step_s * MAX_GAP):
            steps = [step for _, step in group]
            text = _describe(kind, steps, recorded.normal)
            first, last = group[0][0], group[-1][0] + step_s
            # Half of the time of the slowest ones.
            took_s = max(step.get("p95_s", 0) for step in steps) / 2 if kind == "high" else 0
            times = format_time(first * 1000), format_time(last * 1000)
            events.append(Event(*times, kind, text, round(1000 * took_s)))
    return sorted(events, key=lambda event: event.at, reverse=True)[:MAX_EVENTS]


def _list_gaps(recorded: Recorded, step_s: int) -> list[Event]:
    """Return the times between two steps in which nothing was recorded."""
    times = [at for at, _ in recorded.steps]
    return [
        Event(
            format_time((before + step_s) * 1000),
            format_time(after * 1000),
            "off",
            "Nothing was recorded: the web server was off",
        )
        for before, after in pairwise(times)
        if after - before > 3 * step_s
    ]


def _has(kind: str, step: Step, normal: Mapping[str, float]) -> bool:
    if kind == "down":
        return max(step.get("unserved_s", 0), step.get("bus_down_s", 0)) > DOWN_S
    if kind in COUNTED:
        return bool(step.get(kind))
    return any(
        name in step and is_above_normal(name, step[name], normal) for name in ("waiting", "p95_s")
    )


def _join(steps: Sequence[tuple[int, Step]], gap_s: int) -> list[list[tuple[int, Step]]]:
    """Return the steps in groups without longer gaps."""
    groups: list[list[tuple[int, Step]]] = []
    for one in steps:
        if groups and one[0] - groups[-1][-1][0] <= gap_s:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _describe(kind: str, steps: Sequence[Step], normal: Mapping[str, float]) -> str:
    """Return what happened in some steps in words."""
    if kind in COUNTED:
        return describe_count(kind, round(sum(step[kind] for step in steps)))
    if kind == "down":
        bus_s = sum(step.get("bus_down_s", 0) for step in steps)
        if bus_s:
            return f"The bus did not answer for {format_age(bus_s)}"
        unserved_s = sum(step.get("unserved_s", 0) for step in steps)
        return f"A pipeline without a worker for {format_age(unserved_s)}"
    texts = []
    for name, words in (("waiting", "messages waiting"), ("p95_s", "to commit (p95)")):
        value = max((step[name] for step in steps if name in step), default=0.0)
        found = judge(name, value, normal)
        if not found.is_good:
            texts.append(f"{found.text} {words}: {found.note}")
    return ", ".join(texts)


def describe_count(kind: str, count: int) -> str:
    """Return how many of a kind of COUNTED there are, such as `2 dead letters`."""
    return f"{format_count(count)} {COUNTED[kind][count != 1]}"


def _describe_mark(mark: Mark) -> str:
    title = MARK_TITLES[mark.kind]
    return f"{title}: {mark.subject}" if mark.subject else title
