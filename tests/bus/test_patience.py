"""Patience: silence is given up, and neither an answer, nor a pause of our own, nor having nothing
to wait for."""

import asyncio
import time
from collections.abc import Callable

from memrelay.bus.client.connection import SILENT_LOOKS, SilenceTimeout

LOOK_S = 0.05
LONG_S = 3 * SILENT_LOOKS * LOOK_S


def given_up(during: Callable[[SilenceTimeout, list[str]], None]) -> list[float]:
    """After how much silence it was given up, while something happens at each look."""

    async def whole() -> list[float]:
        silences, awaited = list[float](), ["an answer"]
        patience = SilenceTimeout(lambda: awaited, silences.append, LOOK_S)
        patience.begin()
        ended = time.monotonic() + LONG_S
        while time.monotonic() < ended:
            during(patience, awaited)
            await asyncio.sleep(LOOK_S / 5)
        patience.end()
        return silences

    return asyncio.run(whole())


def hear(patience: SilenceTimeout, awaited: list[str]) -> None:
    patience.heard = True


def test_a_silent_server_is_given_up_once() -> None:
    assert given_up(lambda patience, awaited: None) == [SILENT_LOOKS * LOOK_S]


def test_one_that_is_heard_is_not() -> None:
    assert given_up(hear) == []


def test_where_nothing_is_awaited_there_is_nothing_to_give_up() -> None:
    assert given_up(lambda patience, awaited: awaited.clear()) == []


def test_a_pause_of_this_process_is_not_the_servers_silence() -> None:
    def sleep_and_hear(patience: SilenceTimeout, awaited: list[str]) -> None:
        time.sleep(
            LONG_S / 4
        )  # nothing runs meanwhile, as where the process is stopped; then what has come is read
        asyncio.get_running_loop().call_later(LOOK_S, hear, patience, awaited)

    assert given_up(sleep_and_hear) == []
