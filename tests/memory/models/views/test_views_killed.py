"""Accept 5: views equal a recomputation after 10,000 random changes and kills."""

import random
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from memrelay.memory.engine.store import Store
from tests.memory.builders import MEMORY_ID, assert_sound, make_store
from tests.memory.models.views.recomputation import assert_equal, define_all

TOTAL, KILLS = 10_000, 40
PROGRAM = "tests.memory.models.views.changing"


def change_until_killed(path: str, seed: int, changes: int) -> int:
    """Run the program and kill it after so many changes. Return their number."""
    with subprocess.Popen(
        [sys.executable, "-m", PROGRAM, path, str(seed)], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        done = 0
        for line in program.stdout:
            done = int(line)
            if done >= changes:
                program.kill()
                break
    assert done >= changes, f"the program ended with {program.returncode}"
    return done


@pytest.mark.slow
def test_views_survive_kills(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    define_all(store)
    path = store.path
    store.close()
    rng, done, seed = random.Random(TOTAL), 0, 0

    while done < TOTAL:
        seed += 1
        most = 2 * TOTAL // KILLS
        done += change_until_killed(path, seed, rng.randrange(most // 2, most))
        with closing(Store(MEMORY_ID, Path(path))) as reopened:
            assert_equal(reopened)

    assert_sound(path)
