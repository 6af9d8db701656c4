"""A researcher shares its findings with a writer. Another agent cannot read them."""

import os

from memrelay import connect_sync
from memrelay.errors import RelayError

SERVER = os.environ.get("SERVER_URL", "http://127.0.0.1:8765")
PIPELINE = "newsroom"


def main() -> None:
    with connect_sync(SERVER) as client:
        client.deploy({"pipeline_name": "newsroom", "agents": []}, uid=PIPELINE)
        # The store of an agent has the agent's id.
        client.items.put(
            PIPELINE, "researcher", "bridge", "The bridge opened in 1932", agent="researcher"
        )
        # The grant ends by itself after an hour.
        client.grants.set(
            PIPELINE, "researcher", "writer", agent="researcher", level="read", ttl_s=3600
        )

        finding = client.items.get(PIPELINE, "researcher", "bridge", agent="writer")
        print("writer reads:", finding.value)
        hits = client.items.search(PIPELINE, "bridge", agent="writer")
        print("writer finds:", [hit.key for hit in hits.items])
        try:
            client.items.put(PIPELINE, "researcher", "bridge", "in 1933", agent="writer")
        except RelayError as error:
            print("writer changes:", error.status)
        try:
            client.items.get(PIPELINE, "researcher", "bridge", agent="visitor")
        except RelayError as error:
            print("visitor reads:", error.status)


if __name__ == "__main__":
    main()
