"""Facts with a period of validity."""

from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.errors import Refused
from memrelay.memory.transfer.export import export_lines, to_json
from tests.memory.builders import MEMORY_ID, NOW, make_store, perform_at


def test_another_value_is_valid_from_the_write_on(tmp_path: Path) -> None:
    store = make_store(tmp_path / "one")

    def set_fact(value: str, at_ms: int, **given: Any) -> tuple[str | None, str | None]:
        fact = perform_at(store, at_ms, "facts.set", key="city", value=value, **given).fact
        return fact.valid_from, fact.valid_to

    assert set_fact("Berlin", NOW) == (None, None)
    assert set_fact("Berlin", NOW + 1) == (None, None)
    moved = format_time(NOW + 2), None
    assert set_fact("Paris", NOW + 2) == set_fact("Paris", NOW + 3) == moved
    given = {"valid_from": "2021-01-01", "valid_to": "2022-01-01"}
    period = "2021-01-01T00:00:00.000Z", "2022-01-01T00:00:00.000Z"
    assert set_fact("Rome", NOW + 4, **given) == set_fact("Rome", NOW + 5) == period
    assert set_fact("Rome", NOW + 6, valid_to="") == (period[0], None)
    with pytest.raises(Refused, match="must be later"):
        set_fact("Rome", NOW + 7, valid_to="2020-01-01")

    # The history says what was valid until then.
    guid = perform_at(store, NOW + 9, "facts.get", key="city").id
    states = perform_at(store, NOW + 9, "records.history", guid=guid).items
    values = {state.record.data["value"]: state.record.valid_from for state in states}
    assert values == {"Berlin": None, "Paris": moved[0], "Rome": period[0]}
    path = Path(store.path)
    store.close()
    lines = [to_json(line).decode() for line in export_lines(path, MEMORY_ID, NOW)]
    other = make_store(tmp_path / "two")
    perform_at(other, NOW, "records.import", lines=lines)
    assert perform_at(other, NOW, "records.import", lines=lines).same == len(lines)
    assert perform_at(other, NOW, "records.history", guid=guid).items == states
    other.close()


def test_a_search_puts_ended_facts_last_and_a_list_selects(tmp_path: Path) -> None:
    store = make_store(tmp_path)

    def call(name: str, **given: Any) -> list[str]:
        return [fact.key for fact in perform_at(store, NOW, name, **given).items]

    ended = {"valid_from": "2015-01-01", "valid_to": "2020-01-01"}
    perform_at(store, NOW, "facts.set", key="city was", value="Berlin", **ended)
    perform_at(store, NOW, "facts.set", key="likes", value="a big city", confidence=0.6)

    assert call("facts.search", query="city") == ["likes", "city was"]
    assert call("facts.search", query="city", limit=1) == ["likes"]
    assert call("facts.search", query="city", valid_at="2017-01-01") == ["city was", "likes"]
    assert call("facts.list") == ["likes", "city was"]
    assert call("facts.list", valid_at="2021-01-01") == ["likes"]
    store.close()
