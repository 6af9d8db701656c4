"""The model against an open store: many more steps than over a bus, with rollbacks and reopening
instead of kills.
"""

import random
from pathlib import Path

import pytest

from tests.model.agreement import Agreement
from tests.model.caller import SHARED, Caller
from tests.model.files import assert_tables_agree, assert_whole
from tests.model.inside import Inside
from tests.model.test_model import NAMES, told_with


def play(root: Path, seed: str, bursts: int, steps: int) -> None:
    """Run the test for one seed."""
    chance = random.Random(f"{seed} inside")
    with told_with(seed):
        inside = Inside(root, chance)
        callers = [Caller(name, inside, seed, speaks=None) for name in NAMES]
        _, told = inside.call("memories.create", {"name": SHARED}, [])
        for caller in callers:
            caller.shared = told["id"]
        for burst in range(bursts):
            for _ in range(steps):
                chance.choice(callers).run(1)
            inside.commit()
            Agreement(callers).check(5 if burst < bursts - 1 else 1000)
            inside.commit()
            assert_tables_agree(Path(inside.store.path))
        other = inside.moved(root / "other")
        for caller in callers:
            caller.faces = other
        Agreement(callers).check(1000)
        other.commit()
        other.store.close()
        for store in (inside.store, other.store):
            assert_tables_agree(Path(store.path))
            assert_whole(Path(store.path))


def test_an_open_store_agrees_with_the_model(tmp_path: Path) -> None:
    play(tmp_path, "short", bursts=5, steps=100)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("number", range(1, 21))
def test_an_open_store_agrees_with_the_model_after_many_steps(
    tmp_path: Path, number: int, request: pytest.FixtureRequest
) -> None:
    chosen = request.config.getoption("--seed")
    if chosen and number > 1:
        pytest.skip("one seed is asked for")
    play(tmp_path, chosen or str(number), bursts=40, steps=100)
