"""The session: what the life of a worker's connections leaves behind where it cannot even begin."""
from tests.support.house import House
from tests.support.waiting import wait_for


def test_a_worker_that_gets_too_few_connections_gives_back_those_that_it_got() -> None:
    with House() as house:
        redis = house.client.redis
        ours = len(redis.client_list())
        redis.config_set("maxclients", ours + 2)   # it has four
        worker = house.start_worker(ready=False)

        wait_for(lambda: worker.said.count("bus_lost") > 2, "it has tried several times")

        wait_for(lambda: len(redis.client_list()) == ours, "it keeps none")
        redis.config_set("maxclients", ours + 10)
        worker.await_ready()
