"""Charts and judgements of recorded figures."""

import pytest

from memrelay.memory.control.figures_file import Mark, Step
from memrelay.web.figures.charts import FigureView, draw
from memrelay.web.figures.judgement import judge
from memrelay.web.figures.reading import Recorded
from tests.support.figures import START

DAY_S = 86_400
QUIET = {"seconds": 60.0, "done": 6.0, "waiting": 0.0, "dead": 0.0}


def draw_day(steps: dict[int, Step], *marks: Mark, **normal: float) -> FigureView:
    """Return the charts of a day that ended at START. `steps` are by minutes before that."""
    timed = sorted((START - 60 * minutes, step) for minutes, step in steps.items())
    return draw(Recorded("day", START - DAY_S, START, timed, list(marks), normal))


def test_the_value_of_204_ms_is_slow_where_5_are_normal() -> None:
    found = judge("p95_s", 0.204, {"p95_s": 0.005})

    assert f"{found.text}: {found.note}" == "204 ms: slow; normal is 5.0 ms"


@pytest.mark.parametrize(
    ("figure", "value", "normal", "state"),
    [
        ("p95_s", 0.015, {"p95_s": 0.001}, "good"),
        ("p95_s", 0.2, {}, "good"),
        ("p95_s", 0.3, {}, "slow"),
        ("p95_s", 6.0, {"p95_s": 5.9}, "bad"),
        ("waiting", 90, {"waiting": 0.0}, "good"),
        ("waiting", 500, {"waiting": 3.0}, "slow"),
        ("wal_bytes", 300 << 20, {}, "slow"),
        ("disk_free_bytes", 10 << 30, {}, "good"),
        ("disk_free_bytes", 2 << 30, {}, "slow"),
        ("disk_free_bytes", 1, {}, "bad"),
    ],
)
def test_a_figure_is_judged_by_what_is_normal(
    figure: str, value: float, normal: dict[str, float], state: str
) -> None:
    assert judge(figure, value, normal).state == state


def test_columns_without_a_record_are_gaps() -> None:
    view = draw_day(dict.fromkeys((*range(100, 200), *range(400, 500), DAY_S // 60), QUIET))

    messages = view.charts[0]
    assert messages.title == "Messages" and messages.now == "0.10/s"
    assert messages.line.count("M") == 2 and view.since == ""
    assert len(view.times) == len(messages.values) == view.columns == 144
    assert [event.kind for event in view.events] == ["off", "off"]


@pytest.mark.parametrize(
    ("minutes", "columns", "label"), [(5, 61, "23:15"), (180, 37, "22:00"), (600, 61, "18:00")]
)
def test_the_charts_of_a_first_day_show_the_recorded_time(
    minutes: int, columns: int, label: str
) -> None:
    timed: list[tuple[int, Step]] = [(START - 60 * n, QUIET) for n in range(minutes, 0, -1)]

    view = draw(Recorded("day", START - DAY_S, START, timed, [], {}))

    assert view.columns == columns == len(view.times)
    assert label in [tick.text for tick in view.ticks]
    assert (view.since != "") and view.charts[0].line


def test_failed_sends_and_refused_webhooks_are_events() -> None:
    view = draw_day({60: QUIET | {"unsent": 2.0, "refused": 1.0}, 50: QUIET | {"p95_s": 2.0}})

    events = {event.kind: (event.text, event.took_ms) for event in view.events}
    assert events["unsent"] == ("2 sends failed", 0)
    assert events["refused"] == ("1 refused webhook", 0)
    assert events["high"][1] == 1000
    assert "unsent" in view.states and "refused" not in view.states


def test_the_worst_state_of_a_column_is_highlighted() -> None:
    steps: dict[int, Step] = dict.fromkeys(range(60, 300), QUIET)
    steps[100] = QUIET | {"dead": 3.0, "unserved_s": 60.0}
    steps[150] = QUIET | {"dead": 2.0}
    steps[200] = QUIET | {"waiting": 5000.0}

    view = draw_day(steps)

    kinds = [band.kind for band in view.bands if band.kind != "off"]
    assert kinds == ["high", "dead", "down"]
    assert {(event.kind, event.text) for event in view.events} == {
        ("down", "A pipeline without a worker for 60.0 s"),
        ("dead", "3 dead letters"),
        ("dead", "2 dead letters"),
        ("high", "5,000 messages waiting: many; at most 1,000 is expected"),
    }


def test_steps_close_to_each_other_are_one_event() -> None:
    steps: dict[int, Step] = dict.fromkeys(range(60, 300), QUIET)
    for minutes in (100, 103, 105, 150):
        steps[minutes] = QUIET | {"dead": 1.0}

    events = draw_day(steps).events

    assert [event.text for event in events] == ["3 dead letters", "1 dead letter"]


def test_marks_have_lines_and_labels_that_do_not_overlap() -> None:
    marks = [Mark(START - 60 * minutes, "deploy", "tea version 2") for minutes in (720, 719, 180)]

    view = draw_day({60: QUIET, DAY_S // 60: QUIET}, *marks)

    assert [(mark.kind, mark.label) for mark in view.marks] == [
        ("deploy", "Deploy"),
        ("deploy", "Deploy"),
    ]
    assert view.marks[0].title == "Deploy: tea version 2"


def test_nothing_recorded_gives_no_charts() -> None:
    view = draw_day({})

    assert (view.charts, view.events) == ([], [])
