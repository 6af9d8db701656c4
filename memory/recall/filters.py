"""Which records pass a search's filters: sets of rows, kept from search to search and brought up to
date with the layout."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator

import apsw
import numpy as np
import orjson
from msgspec.structs import replace
from numpy.typing import NDArray

from memory.recall.layout import Layout
from memory.sqlite.filters import Clause, Conditions
from memory.sqlite.outline import Since, rows_with
from memory.sqlite.row_numbers import Rows

ON_DAYS = "strftime('{form}', r.created_at / 1000, 'unixepoch') IN (SELECT value FROM json_each(?))"
PARTS = "%Y", "%m", "%d"  # of a day, as strftime has them
KEPT = 16  # sets of a store; 8 bytes a record that passes
APART = 4  # tags of a search that each have a set: of more, most records are out after the first


class Filters:
    """Sets of rows by condition; for one store."""

    def __init__(self, connection: apsw.Connection) -> None:
        """None yet."""
        self._connection = connection
        self._rows: OrderedDict[Clause, Rows] = OrderedDict()

    def mask(self, conditions: Conditions, layout: Layout) -> NDArray[np.bool_] | None:
        """Whether each place meets the conditions; None where there are none."""
        together = None
        for clause in _clauses(conditions):
            mask = np.zeros(len(layout), bool)
            mask[layout.places(self._of(clause))] = True
            together = mask if together is None else together & mask
        return together

    def on_days(self, patterns: Iterable[str], layout: Layout) -> NDArray[np.bool_]:
        """Whether each place's record was made on a day, in UTC, that one of these patterns has:
        `2023-05-07`, `____-05-__`.

        Those of one form are looked for together, since a look at every record takes a microsecond
        for each.
        """
        mask, together = np.zeros(len(layout), bool), dict[str, list[str]]()
        for pattern in patterns:
            named = [
                (part, said)
                for part, said in zip(PARTS, pattern.split("-"), strict=True)
                if "_" not in said
            ]
            together.setdefault("-".join(part for part, _ in named), []).append(
                "-".join(said for _, said in named)
            )
        for form, said in together.items():
            mask[
                layout.places(self._of((ON_DAYS.format(form=form), (orjson.dumps(said).decode(),))))
            ] = True
        return mask

    def change(self, since: Since) -> None:
        """Rows came after `since.row`, and its others were changed or deleted."""
        changed = np.asarray(since.changed, np.int64)
        for clause, rows in self._rows.items():
            kept = rows[(rows <= since.row) & ~np.isin(rows, changed)]
            added = rows_with(self._connection, *clause, since)
            self._rows[clause] = np.sort(np.concatenate([kept, added]))

    def nbytes(self) -> int:
        """What they take in memory."""
        return sum(rows.nbytes for rows in self._rows.values())

    def _of(self, clause: Clause) -> Rows:
        if clause not in self._rows:
            self._rows[clause] = rows_with(self._connection, *clause, Since())
            if len(self._rows) > KEPT:
                self._rows.popitem(last=False)
        self._rows.move_to_end(clause)
        return self._rows[clause]


def _clauses(conditions: Conditions) -> Iterator[Clause]:
    """Each condition by itself, since searches seldom have the same ones together; but many tags,
    which are a look each."""
    parts = [Conditions({name: value}) for name, value in conditions.equal.items()]
    few = len(conditions.tags) <= APART
    parts += (
        [Conditions(tags=(tag,)) for tag in conditions.tags]
        if few
        else [Conditions(tags=conditions.tags)]
    )
    rest = replace(conditions, equal={}, tags=())
    names = ("kinds", "scopes", "globs", "after_ms", "before_ms", "given")
    parts += [replace(Conditions(), **{name: getattr(rest, name)}) for name in names]
    for part in parts:
        clauses, values = part.clauses()
        if clauses:
            yield " AND ".join(clauses), tuple(values)
