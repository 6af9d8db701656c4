"""The picture of a pipeline: everybody has a place in it, whoever listens to whom."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memrelay.web.console.figures import clip
from memrelay.web.console.graph import Graph, draw
from memrelay.web.console.order import GridPosition
from memrelay.web.console.stations import Station

NAMES = st.sampled_from(["a", "b", "c", "d", "User", "<script>", "漢字" * 20, "x" * 200])
SWARMS = st.sampled_from(["chat", "talk", "third", ""])


def make_station(
    name: str = "a", *, hears: tuple[str, ...] = (), on: str = "chat", to: str = "chat", **keys: Any
) -> Station:
    return Station(name, name, "add_1", "", on, hears, to, **{"is_idle": False} | keys)


STATIONS = st.lists(
    st.builds(
        make_station, NAMES, hears=st.lists(NAMES, max_size=4).map(tuple), on=SWARMS, to=SWARMS
    ),
    max_size=40,
)


def places(graph: Graph) -> list[GridPosition]:
    """Columns and rows by what is further right and further down."""
    columns, rows = sorted({box.x for box in graph.boxes}), sorted({box.y for box in graph.boxes})
    return [GridPosition(columns.index(box.x), rows.index(box.y)) for box in graph.boxes]


@given(STATIONS)
def test_no_two_things_stand_in_the_same_place_and_all_stand_in_the_picture(
    stations: list[Station],
) -> None:
    graph = draw(stations)

    assert [box.station for box in graph.boxes] == stations
    assert len(set(places(graph))) == len(stations)
    bars = sorted((bar.x, bar.y, bar.y + bar.height) for bar in graph.bars)
    for (x, _, end), (next_x, start, _) in pairwise(bars):
        assert x < next_x or end <= start
    for thing, width, height in [
        *((box, 184, 40) for box in graph.boxes),
        *((bar, 104, bar.height) for bar in graph.bars),
    ]:
        assert 0 <= thing.x <= graph.width - width and 0 <= thing.y <= graph.height - height


@given(STATIONS)
def test_whoever_hears_or_says_something_has_a_line(stations: list[Station]) -> None:
    graph = draw(stations)

    hearing = [wire for wire in graph.wires if wire.kind in ("listens", "passes")]
    assert len(hearing) == sum(1 for station in stations if station.hears_on)
    assert {wire.swarm for wire in graph.wires} <= {*graph.colours}


def test_a_chain_stands_in_one_row() -> None:
    chain = [make_station("a"), make_station("b", hears=("a",)), make_station("c", hears=("b",))]

    graph = draw(chain)

    assert places(graph) == [(0, 0), (1, 0), (2, 0)]
    assert [wire.kind for wire in graph.wires] == ["listens", "passes", "passes", "says"]


def test_two_who_hear_the_same_one_stand_behind_it_below_each_other() -> None:
    graph = draw(
        [
            make_station("a"),
            make_station("b", hears=("a",)),
            make_station("c", hears=("a",)),
            make_station("d"),
        ]
    )

    assert places(graph) == [(0, 0), (1, 0), (1, 1), (0, 2)]


def test_agents_that_answer_each_other_for_ever_are_drawn_too() -> None:
    graph = draw(
        [
            make_station("a", hears=("b",)),
            make_station("b", hears=("a",)),
            make_station("c", hears=("c",)),
        ]
    )

    assert sorted(wire.kind for wire in graph.wires) == [
        "crosses",
        "listens",
        "listens",
        "passes",
        "says",
        "says",
    ]


def test_one_that_is_on_another_swarm_is_not_heard() -> None:
    graph = draw([make_station("a", to="talk"), make_station("b", hears=("a",))])

    assert places(graph) == [(0, 0), (0, 1)]


def test_a_very_long_chain_is_drawn() -> None:
    graph = draw(
        [make_station("0"), *[make_station(str(at), hears=(str(at - 1),)) for at in range(1, 3000)]]
    )

    assert len(graph.boxes) == 3000 and len({box.y for box in graph.boxes}) == 1


@given(st.text(), st.integers(min_value=1, max_value=40))
def test_what_is_clipped_is_one_line_that_fits(text: str, cells: int) -> None:
    clipped, line = clip(text, cells), " ".join(text.split())

    assert clipped == line or (clipped.endswith("…") and line.startswith(clipped.removesuffix("…")))
    assert len(clipped) <= 4 * cells and clip(clipped, cells) == clipped


def test_wide_letters_take_two_places() -> None:
    assert (clip("漢字漢字", 8), clip("漢字漢字", 7), clip("漢字漢字", 6)) == (
        "漢字漢字",
        "漢字漢…",
        "漢字…",
    )
