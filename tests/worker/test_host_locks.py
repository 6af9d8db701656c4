"""Lock files of a host: one bus per memory root, and which workers have ended."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from memrelay.worker.ownership.host_locks import HostLocks, NotTheOwner
from tests.support.child import CHECKOUT

NEIGHBOUR = """
import sys
from pathlib import Path
from memrelay.worker.ownership.host_locks import HostLocks

with HostLocks(Path(sys.argv[1]), "bus") as place:
    print(place.new_lease(), flush=True)
    if sys.stdin.read():
        place.mark_signed_off()
"""


def test_the_memory_root_is_private(tmp_path: Path) -> None:
    root = tmp_path / "data" / "memory"
    with HostLocks(root, "bus"):
        assert [stat.S_IMODE(one.stat().st_mode) for one in (root, root / "workers")] == [0o700] * 2


class Neighbour:
    """The locks of another worker, in another process."""

    def __init__(self, root: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", NEIGHBOUR, str(root)],
            cwd=CHECKOUT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self.lease = self._process.stdout.readline().strip()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def leave(self, *, mark_signed_off: bool) -> None:
        self._process.communicate("signed off" if mark_signed_off else "")


def test_a_killed_worker_has_ended(tmp_path: Path) -> None:
    neighbour = Neighbour(tmp_path)
    with HostLocks(tmp_path, "bus") as place, HostLocks(tmp_path, "bus") as another:
        assert not place.has_ended(neighbour.lease)

        neighbour.kill()

        assert [one.has_ended(neighbour.lease) for one in (place, another, place)] == [True] * 3


def test_a_stopped_worker_leaves_no_lock_file(
    tmp_path: Path,
) -> None:
    neighbour = Neighbour(tmp_path)
    with HostLocks(tmp_path, "bus"):
        neighbour.leave(mark_signed_off=True)

        assert len(list((tmp_path / "workers").iterdir())) == 1
    assert not list((tmp_path / "workers").iterdir())


def test_a_worker_that_stopped_without_the_bus_has_ended(
    tmp_path: Path,
) -> None:
    neighbour = Neighbour(tmp_path)
    with HostLocks(tmp_path, "bus") as place:
        neighbour.leave(mark_signed_off=False)

        assert place.has_ended(neighbour.lease)


def test_a_worker_of_another_host_has_not_ended(tmp_path: Path) -> None:
    with HostLocks(tmp_path, "bus") as place:
        assert not place.has_ended("elsewhere:1:00000000/1")


def test_an_earlier_lease_of_the_same_worker_has_ended(tmp_path: Path) -> None:
    with HostLocks(tmp_path, "bus") as place:
        assert place.last_lease == ""
        first, second = place.new_lease(), place.new_lease()

        assert first != second == place.last_lease
        assert (place.has_ended(first), place.has_ended(second)) == (True, False)


def test_a_memory_root_has_one_bus_at_a_time(tmp_path: Path) -> None:
    with HostLocks(tmp_path, "here"):
        with (
            pytest.raises(
                NotTheOwner, match=f"workers of the bus here serve {tmp_path}; stop them"
            ),
            HostLocks(tmp_path, "there"),
        ):
            pass
        with HostLocks(tmp_path, "here"):
            pass
    with HostLocks(tmp_path, "there"):
        pass
