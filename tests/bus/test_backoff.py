"""The pauses before what has ended is begun again."""

from memrelay.bus.client.reconnecting import Backoff


def test_restarts_come_ever_more_slowly_until_a_healthy_life() -> None:
    backoff = Backoff(first_s=0.1, most_s=0.5, healthy_after_s=30)

    assert [backoff.delay_s(1.0) for _ in range(5)] == [0.1, 0.2, 0.4, 0.5, 0.5]
    assert backoff.delay_s(31.0) == 0.1
