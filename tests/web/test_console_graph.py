"""The diagram of a pipeline: every agent has a position."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memrelay.web.console.agents import AgentView
from memrelay.web.console.format import clip
from memrelay.web.console.graph import Graph, GridPosition, draw_graph

NAMES = st.sampled_from(["a", "b", "c", "d", "User", "<script>", "漢字" * 20, "x" * 200])
SWARMS = st.sampled_from(["chat", "talk", "third", ""])


def make_agent(
    name: str = "a",
    *,
    senders: tuple[str, ...] = (),
    on: str = "chat",
    to: str = "chat",
    **keys: Any,
) -> AgentView:
    return AgentView(name, name, "add_1", "", on, senders, to, **{"is_idle": False} | keys)


AGENTS = st.lists(
    st.builds(
        make_agent, NAMES, senders=st.lists(NAMES, max_size=4).map(tuple), on=SWARMS, to=SWARMS
    ),
    max_size=40,
)


def positions(graph: Graph) -> list[GridPosition]:
    """Return the column and row of each box."""
    columns, rows = sorted({box.x for box in graph.boxes}), sorted({box.y for box in graph.boxes})
    return [GridPosition(columns.index(box.x), rows.index(box.y)) for box in graph.boxes]


@given(AGENTS)
def test_no_boxes_or_bars_overlap_or_leave_the_diagram(
    agents: list[AgentView],
) -> None:
    graph = draw_graph(agents)

    assert [box.agent for box in graph.boxes] == agents
    assert len(set(positions(graph))) == len(agents)
    bars = sorted((bar.x, bar.y, bar.y + bar.height) for bar in graph.bars)
    for (x, _, end), (next_x, start, _) in pairwise(bars):
        assert x < next_x or end <= start
    for thing, width, height in [
        *((box, 176, 40) for box in graph.boxes),
        *((bar, 96, bar.height) for bar in graph.bars),
    ]:
        assert 0 <= thing.x <= graph.width - width and 0 <= thing.y <= graph.height - height


@given(AGENTS)
def test_every_listening_agent_has_an_edge(agents: list[AgentView]) -> None:
    graph = draw_graph(agents)

    hearing = [edge for edge in graph.edges if edge.kind in ("listens", "passes")]
    assert len(hearing) == sum(1 for agent in agents if agent.listens_on)
    assert {edge.swarm for edge in graph.edges} <= {*graph.colors}


def test_a_chain_is_in_one_row() -> None:
    chain = [make_agent("a"), make_agent("b", senders=("a",)), make_agent("c", senders=("b",))]

    graph = draw_graph(chain)

    assert positions(graph) == [(0, 0), (1, 0), (2, 0)]
    assert [edge.kind for edge in graph.edges] == ["listens", "passes", "passes", "publishes"]


def test_two_listeners_of_one_agent_are_behind_it_in_two_rows() -> None:
    graph = draw_graph(
        [
            make_agent("a"),
            make_agent("b", senders=("a",)),
            make_agent("c", senders=("a",)),
            make_agent("d"),
        ]
    )

    assert positions(graph) == [(0, 0), (1, 0), (1, 1), (0, 2)]


def test_a_cycle_of_agents_is_drawn() -> None:
    graph = draw_graph(
        [
            make_agent("a", senders=("b",)),
            make_agent("b", senders=("a",)),
            make_agent("c", senders=("c",)),
        ]
    )

    assert sorted(edge.kind for edge in graph.edges) == [
        "crosses",
        "listens",
        "listens",
        "passes",
        "publishes",
        "publishes",
    ]


def test_a_named_sender_on_another_swarm_has_no_edge() -> None:
    graph = draw_graph([make_agent("a", to="talk"), make_agent("b", senders=("a",))])

    assert positions(graph) == [(0, 0), (0, 1)]


def test_a_very_long_chain_is_drawn() -> None:
    graph = draw_graph(
        [make_agent("0"), *[make_agent(str(at), senders=(str(at - 1),)) for at in range(1, 3000)]]
    )

    assert len(graph.boxes) == 3000 and len({box.y for box in graph.boxes}) == 1000


@given(st.text(), st.integers(min_value=1, max_value=40))
def test_a_clipped_text_is_one_line_that_fits(text: str, cells: int) -> None:
    clipped, line = clip(text, cells), " ".join(text.split())

    assert clipped == line or (clipped.endswith("…") and line.startswith(clipped.removesuffix("…")))
    assert len(clipped) <= 4 * cells and clip(clipped, cells) == clipped


def test_a_long_text_is_clipped_also_if_it_begins_with_whitespace() -> None:
    assert clip(" " * 10_000 + "a  b" * 10_000, 5) == "a ba…"
    assert clip("ab" + " " * 10_000, 5) == "ab"


def test_wide_letters_take_two_cells() -> None:
    assert (clip("漢字漢字", 8), clip("漢字漢字", 7), clip("漢字漢字", 6)) == (
        "漢字漢字",
        "漢字漢…",
        "漢字…",
    )
