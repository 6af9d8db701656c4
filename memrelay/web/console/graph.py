"""The diagram of a pipeline: bars are swarms, boxes are agents, arrows run from left to right.

An agent that accepts all senders is next to the bar of its swarm. An agent that accepts only named
senders is behind the first of them, in the same row if possible. A long chain continues in the next
row, so every diagram fits into a page. The last agent of a row points to a bar at the right edge.
All rows have the same height, so the diagram of sixty agents is long but no harder to read than one
of six.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from memrelay.web.console.agents import AgentView
from memrelay.web.console.format import clip

# Sizes in px. The smallest text has 12 px (console.css), so a diagram is readable from 11/12 of its
# width on. The container queries in console.css depend on these sizes.
MARGIN = 8
ROW_HEIGHT = 56
COLUMN_GAP = 72
BOX_WIDTH, BOX_HEIGHT = 176, 40
BAR_WIDTH = 96
MAX_COLUMNS = 3
# Above this height, a bar has its label at the top.
TALL_BAR = 9 * ROW_HEIGHT
# The distance from a box to the turn of an edge to another row.
TURN = 10
ARROW_LENGTH, ARROW_HALF_WIDTH = 6, 4
# Letters that fit.
BOX_LETTERS, BLOCK_LETTERS, BAR_LETTERS, LABEL_LETTERS = 20, 21, 11, 7
COLORS = 6
# More crossing edges would make the diagram unreadable.
MAX_CROSSING_EDGES = 120


class GridPosition(NamedTuple):
    """The position of an agent."""

    column: int
    row: int


class Point(NamedTuple):
    """A point in px."""

    x: int
    y: int


class Edge(NamedTuple):
    """An arrow.

    `kind` is one of:

    - `listens`: from a swarm's bar to an agent
    - `passes`: from an agent to an agent behind it
    - `crosses`: from an agent to an agent elsewhere
    - `publishes`: from an agent to a swarm's bar

    `source` and `target` are the indexes of agents, None for a bar.
    """

    kind: str
    swarm: str
    source: int | None
    target: int | None
    title: str
    start: Point
    end: Point
    label: str = ""

    @property
    def path(self) -> str:
        """Return the line in SVG's notation."""
        line = _curve if self.kind == "crosses" else _bend
        return line(self.start, self.end) + _arrowhead(self.end)

    @property
    def count_at(self) -> Point:
        """Return the place for the number of its messages, which is the end of the text."""
        if self.kind == "crosses":
            return Point((self.start.x + self.end.x) // 2, (self.start.y + self.end.y) // 2)
        return Point(self.end.x - 12, self.end.y + 15)


class Bar(NamedTuple):
    """A swarm."""

    name: str
    label: str
    x: int
    y: int
    height: int
    label_y: int


class Box(NamedTuple):
    """An agent."""

    agent: AgentView
    label: str
    block: str
    x: int
    y: int


class Graph(NamedTuple):
    """The diagram, with sizes in px.

    `columns` is the number of agents in its longest row. `colors` maps swarms to color numbers.
    `left_out` counts the edges that are not drawn.
    """

    width: int
    height: int
    columns: int
    bars: list[Bar]
    boxes: list[Box]
    edges: list[Edge]
    colors: dict[str, int]
    left_out: int
    box_width: int = BOX_WIDTH
    box_height: int = BOX_HEIGHT
    bar_width: int = BAR_WIDTH


def draw_graph(agents: Sequence[AgentView]) -> Graph:
    """Return the diagram of a pipeline."""
    layout = Layout(agents)
    positions = layout.assign_positions()
    columns = 1 + max((position.column for position in positions), default=-1)
    rows = 1 + max((position.row for position in positions), default=-1)
    bars, has_right_bars = _draw_bars(layout, positions, columns)
    crossing = list(_crossing_edges(layout, positions))
    right_edge = BAR_WIDTH + MARGIN if has_right_bars else MARGIN - COLUMN_GAP
    return Graph(
        _column_x(columns) + right_edge,
        rows * ROW_HEIGHT + 2 * MARGIN,
        columns,
        bars,
        [_draw_box(agent, at) for agent, at in zip(agents, positions, strict=True)],
        [*_straight_edges(layout, positions), *crossing[:MAX_CROSSING_EDGES]],
        _assign_colors(agents),
        max(0, len(crossing) - MAX_CROSSING_EDGES),
    )


class Layout:
    """The order of the agents. Agents are identified by their index.

    `senders[i]` are the agents that i names as senders. `first[i]` is the one that i is placed
    behind, or None. `behind[i]` are the agents placed behind i.
    """

    def __init__(self, agents: Sequence[AgentView]) -> None:
        self.agents = agents
        self.senders = _find_senders(agents)
        self.first: list[int | None] = [None] * len(agents)
        for index, senders in enumerate(self.senders):
            self.first[index] = next(
                (other for other in senders if not self._is_behind(other, index)), None
            )
        self.behind: list[list[int]] = [[] for _ in agents]
        for index, other in enumerate(self.first):
            if other is not None:
                self.behind[other].append(index)

    def _is_behind(self, index: int, other: int) -> bool:
        """Return whether `index` is already placed behind `other`, which would make a cycle."""
        current: int | None = index
        while current is not None:
            if current == other:
                return True
            current = self.first[current]
        return False

    def assign_positions(self) -> list[GridPosition]:
        """Return the position of each agent."""
        found = [GridPosition(0, 0)] * len(self.agents)
        pending = [(index, 0, True) for index in reversed(self.list_roots())]
        row = -1
        while pending:
            index, column, starts_row = pending.pop()
            row += starts_row
            found[index] = GridPosition(column, row)
            wraps, right = column + 1 == MAX_COLUMNS, (column + 1) % MAX_COLUMNS
            children = [
                (child, right, wraps or n > 0) for n, child in enumerate(self.behind[index])
            ]
            pending += reversed(children)
        return found

    def list_roots(self) -> list[int]:
        """Return the agents next to a bar, grouped by swarm. Agents without a swarm come last."""
        roots = [index for index, other in enumerate(self.first) if other is None]
        swarms = list(dict.fromkeys(self.agents[index].listens_on for index in roots))

        def sort_key(index: int) -> tuple[bool, int]:
            swarm = self.agents[index].listens_on
            return not swarm, swarms.index(swarm)

        return sorted(roots, key=sort_key)


def _find_senders(agents: Sequence[AgentView]) -> list[list[int]]:
    by_swarm_and_name: dict[tuple[str, str], list[int]] = {}
    for index, agent in enumerate(agents):
        if agent.publishes_on:
            by_swarm_and_name.setdefault((agent.publishes_on, agent.name), []).append(index)
    return [
        [
            other
            for name in agent.named_senders
            for other in by_swarm_and_name.get((agent.listens_on, name), ())
            if other != index
        ]
        for index, agent in enumerate(agents)
    ]


def _column_x(column: int) -> int:
    """Return the left edge of a column. The one after the last holds the right bars."""
    return MARGIN + BAR_WIDTH + COLUMN_GAP + column * (BOX_WIDTH + COLUMN_GAP)


def _row_y(row: int) -> int:
    """Return the middle of a row."""
    return MARGIN + row * ROW_HEIGHT + ROW_HEIGHT // 2


def _left_of(position: GridPosition) -> Point:
    return Point(_column_x(position.column), _row_y(position.row))


def _right_of(position: GridPosition) -> Point:
    return Point(_column_x(position.column) + BOX_WIDTH, _row_y(position.row))


def _draw_box(agent: AgentView, position: GridPosition) -> Box:
    left = _left_of(position)
    label, block = clip(agent.name, BOX_LETTERS), clip(agent.block, BLOCK_LETTERS)
    return Box(agent, label, block, left.x, left.y - BOX_HEIGHT // 2)


def _assign_colors(agents: Sequence[AgentView]) -> dict[str, int]:
    """Number the colors of the swarms. Colors repeat, because the labels identify swarms."""
    names = dict.fromkeys(
        name for agent in agents for name in (agent.listens_on, agent.publishes_on) if name
    )
    return {name: number % COLORS for number, name in enumerate(names)}


def _draw_bars(
    layout: Layout, positions: Sequence[GridPosition], columns: int
) -> tuple[list[Bar], bool]:
    """Return the bars, and whether there are any at the right edge."""
    agents = layout.agents
    left = [(agents[index].listens_on, positions[index].row) for index in layout.list_roots()]
    last = [index for index in range(len(agents)) if not layout.behind[index]]
    right = sorted(
        ((agents[index].publishes_on, positions[index].row) for index in last),
        key=lambda end: end[1],
    )
    bars = [
        *_merge_bars(left, MARGIN, joined=True),
        *_merge_bars(right, _column_x(columns), joined=False),
    ]
    return bars, any(name for name, _ in right)


def _merge_bars(swarms: Iterable[tuple[str, int]], x: int, *, joined: bool) -> list[Bar]:
    """Return one bar per run of (swarm, row) with the same swarm.

    `joined` bars extend over rows in between, others cover adjacent rows only.
    """
    runs: list[tuple[str, int, int]] = []
    for name, row in swarms:
        if runs and runs[-1][0] == name and (joined or runs[-1][2] == row - 1):
            runs[-1] = name, runs[-1][1], row
        else:
            runs.append((name, row, row))
    return [_draw_bar(name, first, last, x) for name, first, last in runs if name]


def _draw_bar(name: str, first: int, last: int, x: int) -> Bar:
    top, height = _row_y(first) - BOX_HEIGHT // 2, (last - first) * ROW_HEIGHT + BOX_HEIGHT
    label_y = top + (height if height < TALL_BAR else BOX_HEIGHT) // 2
    return Bar(name, clip(name, BAR_LETTERS), x, top, height, label_y)


def _straight_edges(layout: Layout, positions: Sequence[GridPosition]) -> Iterator[Edge]:
    """Return all edges except the crossing ones."""
    bars_x = _column_x(1 + max((position.column for position in positions), default=-1))
    for index, agent in enumerate(layout.agents):
        yield from _arriving_edge(layout, positions, index)
        swarm = agent.publishes_on
        if swarm and not layout.behind[index]:
            start, title = _right_of(positions[index]), f"{agent.name} publishes on {swarm}"
            end = Point(bars_x, start.y)
            yield Edge("publishes", swarm, index, None, title, start, end)


def _arriving_edge(layout: Layout, positions: Sequence[GridPosition], index: int) -> Iterator[Edge]:
    """Return the edge to an agent from the agent in front of it, otherwise from its swarm."""
    agent, first, end = layout.agents[index], layout.first[index], _left_of(positions[index])
    swarm = agent.listens_on
    if first is not None:
        start, title = _right_of(positions[first]), _listens_title(agent, layout.agents[first])
        label = clip(swarm, LABEL_LETTERS)
        yield Edge("passes", swarm, first, index, title, start, end, label)
    elif swarm:
        start = Point(MARGIN + BAR_WIDTH, end.y)
        title = f"{agent.name} listens on {swarm} to {agent.senders}"
        label = clip(", ".join(agent.named_senders), LABEL_LETTERS)
        yield Edge("listens", swarm, None, index, title, start, end, label)


def _crossing_edges(layout: Layout, positions: Sequence[GridPosition]) -> Iterator[Edge]:
    """Return the edges from named senders that an agent is not placed behind."""
    for index, agent in enumerate(layout.agents):
        end = _left_of(positions[index])
        for other in layout.senders[index]:
            if other != layout.first[index]:
                start = _right_of(positions[other])
                title = _listens_title(agent, layout.agents[other])
                yield Edge("crosses", agent.listens_on, other, index, title, start, end)


def _listens_title(listener: AgentView, sender: AgentView) -> str:
    return f"{listener.name} listens to {sender.name} on {listener.listens_on}"


def _bend(start: Point, end: Point) -> str:
    """Return a horizontal line, or one with right angles to a lower row."""
    if start.y == end.y:
        return f"M{start.x} {start.y}H{end.x}"
    turn = start.x + TURN
    down = f"M{start.x} {start.y}H{turn - 6}q6 0 6 6"
    if start.x < end.x:
        return f"{down}V{end.y - 6}q0 6 6 6H{end.x}"
    # A long chain goes on at the left, between the rows.
    between, left = end.y - ROW_HEIGHT // 2, end.x - COLUMN_GAP + TURN
    back = f"V{between - 6}q0 6 -6 6H{left + 6}q-6 0 -6 6"
    return f"{down}{back}V{end.y - 6}q0 6 6 6H{end.x}"


def _curve(start: Point, end: Point) -> str:
    controls = f"{start.x + COLUMN_GAP} {start.y} {end.x - COLUMN_GAP} {end.y}"
    return f"M{start.x} {start.y}C{controls} {end.x} {end.y}"


def _arrowhead(end: Point) -> str:
    left, top, bottom = end.x - ARROW_LENGTH, end.y - ARROW_HALF_WIDTH, end.y + ARROW_HALF_WIDTH
    return f"M{left} {top}L{end.x} {end.y}L{left} {bottom}"
