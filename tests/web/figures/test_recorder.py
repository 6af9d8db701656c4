"""The recorder: differences of counters, bounds of its file, and faults that disturb nothing."""

import asyncio
import os
import random
import resource
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from memrelay.bus.errors import BusUnavailable
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.figures_file import FIGURES, MAX_BYTES, SPANS, FiguresFile, Mark, merge
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.web.auth.authorizer import Caller
from memrelay.web.figures.differences import ALL, OTHERS, Differences, find_quantile
from memrelay.web.figures.reading import Figures
from memrelay.web.figures.recorder import LOCK, MAX_PIPELINES, Recorder
from tests.support.figures import START, Recording, make_row, make_status
from tests.support.waiting import wait_for

DELIVERIES = {
    "tries": 10,
    "delivered": 7,
    "duration": {"bounds_s": [0.1, 1.0], "counts": [0, 7, 3], "sum_s": 1.0},
}


def test_counters_become_differences() -> None:
    differences = Differences()

    first = differences.take(make_status(make_row("a", done=100)), 10)
    second = differences.take(make_status(make_row("a", done=130, dead=2, lag=5)), 10)

    assert first["a"]["done"] == 0
    assert (second["a"]["done"], second["a"]["dead"], second["a"]["waiting"]) == (30, 2, 5)
    assert second[ALL]["done"] == 30 and second[ALL]["seconds"] == 10


def test_a_restarted_worker_counts_from_zero() -> None:
    differences = Differences()
    differences.take(make_status(make_row("a", done=100)), 10)

    lower = differences.take(make_status(make_row("a", done=4), started_at=1), 10)
    same_start = differences.take(make_status(make_row("a", done=3), started_at=1), 10)

    assert (lower["a"]["done"], same_start["a"]["done"]) == (4, 3)


def test_a_pipeline_without_a_worker_is_counted_in_seconds() -> None:
    found = Differences().take(make_status(make_row("a", owner=None), make_row("b")), 10)

    assert (found["a"]["unserved_s"], found["b"]["unserved_s"], found[ALL]["unserved_s"]) == (
        *(10, 0, 10),
    )


def test_the_latency_is_that_of_the_step() -> None:
    differences = Differences()
    differences.take(make_status(make_row("a"), counts=(1000, 0, 0, 0)), 10)

    found = differences.take(make_status(make_row("a"), counts=(1000, 0, 100, 0)), 10)
    idle = differences.take(make_status(make_row("a"), counts=(1000, 0, 100, 0)), 10)

    assert 0.9 < found[ALL]["p95_s"] < 1.0
    assert "p95_s" not in idle[ALL]


def test_tries_that_failed_are_counted() -> None:
    differences = Differences()
    differences.take(make_status(make_row("a", deliveries=DELIVERIES)), 10)
    later = DELIVERIES | {"tries": 14, "delivered": 8}

    found = differences.take(make_status(make_row("a", deliveries=later)), 10)

    assert (found["a"]["delivered"], found["a"]["undelivered"]) == (1, 3)


@pytest.mark.parametrize(
    ("counts", "value"),
    [((0, 0, 0), None), ((1, 0, 0), 0.095), ((0, 20, 0), 0.955), ((0, 0, 1), 1.0)],
)
def test_a_quantile_lies_within_its_class(counts: tuple[int, ...], value: float | None) -> None:
    found = find_quantile((0.1, 1.0), counts, 0.95)

    assert found == (value if value is None else pytest.approx(value))


def test_minutes_are_written_with_their_marks(tmp_path: Path) -> None:
    recording = Recording(tmp_path)

    async def run() -> None:
        for number in range(12):
            await recording.sample(make_status(make_row("a", done=10 * number)))

    asyncio.run(run())

    file = FiguresFile(tmp_path)
    day, week = file.read("day", "a", START), file.read("week", "a", START)
    assert [step["done"] for _, step in day] == [10] * 10
    assert [at % 60 for at, _ in day] == [0] * len(day)
    assert [at for at, _ in week] == [START, START + 600]
    assert sum(step["done"] for _, step in week) == 100
    assert {mark.kind for mark in file.read_marks(0)} == {"restart"}
    assert file.read("day", "unknown", 0) == []


def test_the_file_begins_anew_if_it_is_damaged_or_deleted(tmp_path: Path) -> None:
    file = FiguresFile(tmp_path)
    file.add({START: {ALL: {"done": 1.0}}})
    file.path.write_bytes(b"no database" * 1000)

    with pytest.raises(StoreBroken):
        file.read("day", ALL, 0)
    assert file.read("day", ALL, 0) == []
    file.add({START: {ALL: {"done": 2.0}}})
    assert file.read("day", ALL, 0) == [(START, {"done": 2})]
    file.path.unlink()
    file.add({START: {ALL: {"done": 3.0}}})
    assert file.read("day", ALL, 0) == [(START, {"done": 3})]


def test_a_damaged_chunk_is_no_fault_of_a_later_write(tmp_path: Path) -> None:
    file = FiguresFile(tmp_path)
    file.add({START: {ALL: {"done": 1.0}}})
    # The beginning of compressed data.
    file.path.write_bytes(file.path.read_bytes().replace(b"x\x9c", bytes(2)))

    with pytest.raises(StoreBroken):
        file.read("day", ALL, 0)
    file.add({START + 60: {ALL: {"done": 1.0}}})

    assert file.read("day", ALL, 0) == [(START + 60, {"done": 1})]


def test_a_folder_without_room_is_a_fault_that_the_recorder_logs_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "figures.db").mkdir()
    recording = Recording(tmp_path)

    async def run() -> None:
        for number in range(5):
            await recording.sample(make_status(make_row("a", done=number)))

    asyncio.run(run())

    with pytest.raises(StoreBusy):
        FiguresFile(tmp_path).add({START: {}})
    assert [one.message for one in caplog.records].count("figures_not_recorded") == 1


def test_a_lost_bus_is_recorded(tmp_path: Path) -> None:
    now = [float(START)]

    async def read() -> dict[str, Any]:
        raise BusUnavailable("gone")

    recorder = Recorder(tmp_path, read, lambda: now[0])

    async def run() -> None:
        for _ in range(3):
            now[0] += 60
            await recorder.sample()

    asyncio.run(run())

    assert [step["bus_down_s"] for _, step in FiguresFile(tmp_path).read("day", ALL, 0)] == [60, 60]


def test_pipelines_beyond_the_limit_are_recorded_together(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    idle = [make_row(f"idle{number}") for number in range(50)]

    async def run() -> None:
        for number in range(4):
            used = [make_row(f"p{name:02}", done=number) for name in range(MAX_PIPELINES + 3)]
            await recording.sample(make_status(*idle, *used))

    asyncio.run(run())

    file = FiguresFile(tmp_path)
    names = set(file.list_series())
    assert names == {ALL, OTHERS, *(f"p{name:02}" for name in range(MAX_PIPELINES))}
    assert [step["done"] for _, step in file.read("day", OTHERS, START)][-2:] == [3, 3]


def test_one_of_several_servers_records(tmp_path: Path) -> None:
    calls = [0, 0]

    async def run() -> None:
        async def read(number: int) -> dict[str, Any]:
            calls[number] += 1
            return make_status(make_row("a"))

        recorders = [
            Recorder(tmp_path, lambda number=number: read(number), pause_s=0.01)  # type: ignore[misc]
            for number in range(2)
        ]
        first, second = [asyncio.create_task(one.run()) for one in recorders]
        while not calls[0]:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert calls[1] == 0
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        while not calls[1]:
            await asyncio.sleep(0.01)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)

    asyncio.run(asyncio.wait_for(run(), 30))

    assert stat.S_IMODE((tmp_path / LOCK).stat().st_mode) == 0o600


def test_old_steps_and_marks_are_deleted(tmp_path: Path) -> None:
    file, week_s = FiguresFile(tmp_path), SPANS["week"].length_s
    file.add({START: {"a": {"done": 1.0}}}, [Mark(START, "backup", "")])

    file.add({START + 2 * week_s: {"b": {"done": 1.0}}}, [Mark(START + 2 * week_s, "backup", "")])

    assert file.list_series() == ["b"]
    assert file.read_marks(0) == [Mark(START + 2 * week_s, "backup", "")]


def test_the_marks_are_bounded(tmp_path: Path) -> None:
    file = FiguresFile(tmp_path)
    file.add({START: {}}, [Mark(START + number, "restart", "w") for number in range(2000)])

    assert len(file.read_marks(0)) == 500


def test_two_parts_of_a_step_are_merged() -> None:
    assert merge(
        {"done": 1, "waiting": 5, "disk_free_bytes": 7}, {"done": 2, "waiting": 3, "p95_s": 1}
    ) == {"done": 3, "waiting": 5, "disk_free_bytes": 7, "p95_s": 1}


@pytest.mark.slow
def test_the_file_stays_below_two_megabytes(tmp_path: Path) -> None:
    """Figures that do not compress, of many more pipelines than the recorder names."""
    file, chance = FiguresFile(tmp_path), random.Random(5)
    names = [ALL, OTHERS, *(f"{number:032}" for number in range(12 * MAX_PIPELINES))]
    most = 0
    for minute in range(0, 2 * 1440, 40):
        steps = {name: {figure: chance.random() * 10**6 for figure in FIGURES} for name in names}
        file.add({START + 60 * minute: steps})
        most = max(most, file.path.stat().st_size)

    last = START + 60 * (2 * 1440 - 40)
    assert 0.9 * MAX_BYTES < most <= MAX_BYTES
    assert file.read("day", names[-1], last)[-1][0] == last
    assert len(file.read("week", ALL, last - 86_400)) > 20


def test_a_quota_of_the_file_size_ends_no_recording(tmp_path: Path) -> None:
    """A full disk: the process may write no file beyond 20 kB."""
    child = os.fork()
    if not child:  # pragma: no cover  # its own process, because the limit cannot be raised again
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        recording = Recording(tmp_path)

        async def run() -> None:
            for number in range(200):
                rows = [make_row(f"p{name}", done=number**2 % 97 * number) for name in range(16)]
                await recording.sample(make_status(*rows))

        code = 1
        try:
            asyncio.run(run())
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    wait_for(lambda: FiguresFile(tmp_path).read("day", ALL, 0), "the first minutes are there")


def test_the_last_minute_is_read_before_it_is_written(tmp_path: Path) -> None:
    recording = Recording(tmp_path)
    caller = Caller(frozenset({"read"}), frozenset({"a"}))

    async def run() -> None:
        async with Catalog(tmp_path) as catalog:
            figures = Figures(tmp_path, catalog, recording.recorder, lambda: recording.now)
            await recording.sample(make_status(make_row("a")))
            await recording.sample(make_status(make_row("a", done=3)), 10.0)
            assert (await figures.find_latest(caller))["done"] == 3
            state = figures.state
            await recording.sample(make_status(make_row("a", done=3)), 2.0)
            assert figures.state == state

            for _ in range(2):
                await recording.sample(make_status(make_row("a", done=4)))
                day = await figures.read("day", caller)
                assert sum(step["done"] for _, step in day.steps) == 4

    asyncio.run(run())
