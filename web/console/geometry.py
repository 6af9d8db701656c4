"""Where things stand in a picture, in px: columns of boxes between two columns of bars, in rows of
equal height."""

from typing import NamedTuple

from web.console.order import Place

MARGIN = 8
ROW, GAP = 52, 88  # from row to row; between columns
BOX_WIDTH, BOX_HEIGHT = 184, 40
BAR_WIDTH = 104
BOX_LETTERS, BAR_LETTERS, LABEL_LETTERS = 21, 12, 10  # that fit


class Point(NamedTuple):
    """A point."""

    x: int
    y: int


def column_x(column: int) -> int:
    """Where a column begins; the one after the last is that of the bars at the right."""
    return MARGIN + BAR_WIDTH + GAP + column * (BOX_WIDTH + GAP)


def row_y(row: int) -> int:
    """The middle of a row."""
    return MARGIN + row * ROW + ROW // 2


def left_of(place: Place) -> Point:
    """Where lines reach a box."""
    return Point(column_x(place.column), row_y(place.row))


def right_of(place: Place) -> Point:
    """Where lines leave it."""
    return Point(column_x(place.column) + BOX_WIDTH, row_y(place.row))
