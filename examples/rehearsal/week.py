"""Tell a new pipeline what a team learned last week, and print the end of Tuesday.

The messages have the times of last week. The pipeline gets them now, so "the end of Tuesday" is the
time, in Unix ms, at which it has those of Monday and Tuesday.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import orjson
import redis

from memrelay import connect_sync
from memrelay.errors import RelayError

SERVER = os.environ.get("SERVER_URL", "http://127.0.0.1:8765")
MEMRELAY = Path(sys.executable).with_name("memrelay")
DAY_MS, HOUR_MS = 86_400_000, 3_600_000
FIRST = ["Umbrella has its office in Berlin"]
MONDAY_AND_TUESDAY = [
    "Globex pays by invoice",
    "Hooli uses the mobile app",
    "Carla of Initech is allergic to nuts",
    "Umbrella asks for a discount",
]
LATER = [
    "Hooli works with the mobile app",
    "Globex pays by invoice within thirty days",
    "Umbrella asked for a discount",
    "Carla of Initech is allergic to nuts and sesame",
    "The new account manager of Globex is Ben",
]


def main(pipeline: str) -> None:
    url = subprocess.run(
        [MEMRELAY, "bus", "--url"], check=True, capture_output=True, text=True
    ).stdout.strip()
    monday_ms = time.time_ns() // 1_000_000 - 7 * DAY_MS
    with redis.Redis.from_url(url) as bus:
        # The embedder is loaded with the first fact.
        tell(bus, pipeline, FIRST, monday_ms - HOUR_MS)
        tell(bus, pipeline, MONDAY_AND_TUESDAY, monday_ms)
        print(time.time_ns() // 1_000_000)
        tell(bus, pipeline, LATER, monday_ms + 2 * DAY_MS)


def tell(bus: redis.Redis, pipeline: str, facts: list[str], start_ms: int) -> None:
    """Add facts as messages of a past time, and wait until the pipeline has the last one."""
    for number, fact in enumerate(facts):
        message = {"from": "User", "args": [{"text": f"/remember {fact}"}]}
        fields = {"swarm": "chat", "data": orjson.dumps(message)}
        past = f"{start_ms + number * 6 * HOUR_MS}-0"
        try:
            bus.xadd(f"pipeline:{{{pipeline}}}:in", fields, id=past)
        except redis.ResponseError as error:
            sys.exit(f"{error}: deploy the bundle under another --uid, which has no messages yet")
    while not is_known(pipeline, facts[-1]):
        time.sleep(0.1)


def is_known(pipeline: str, fact: str) -> bool:
    """Return whether the pipeline finds a fact by its words and its meaning."""
    with connect_sync(SERVER) as client:
        try:
            found = client.knowledge.search(pipeline, fact, limit=1)
        except RelayError:
            return False
    return not found.degraded and any(fact in one.content for one in found.results)


if __name__ == "__main__":
    main(sys.argv[1])
