"""An input without its last entries, as after a failover to a replica with a slow clock."""

from tests.support.bundles import make_bundle, make_uid
from tests.support.client import input_of, make_envelope
from tests.support.house import House
from tests.support.waiting import wait_for


def lose_tail(house: House, uid: str) -> None:
    """Delete the input and cut the connections; return when the worker is back."""
    served = house.workers[-1].said.count("pipelines_served")
    house.client.redis.delete(input_of(uid))
    house.client.redis.client_kill_filter(_type="normal", skipme=True)
    wait_for(
        lambda: house.workers[-1].said.count("pipelines_served") > served, "the worker is back"
    )


def test_a_new_message_never_gets_the_id_of_a_lost_one() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        at = house.client.enter(uid, "/write lost").partition("-")[0]
        house.client.await_quiet(uid)

        lose_tail(house, uid)
        wait_for(lambda: "input_had_lost_entries" in house.workers[-1].said, "the worker logs it")
        house.client.enter_raw(
            uid, make_envelope("/write new"), ident=f"{at}-*"
        )  # as if the clock showed that time again
        house.client.await_quiet(uid)

        assert house.contents(uid) == ["lost", "new"]
        assert not house.dead_letters(uid)
