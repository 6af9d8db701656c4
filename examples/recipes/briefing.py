"""Turn the events of services into a text for a prompt, without a model."""

import json
import os
from pathlib import Path

from memrelay import connect_sync

SERVER = os.environ.get("SERVER_URL", "http://127.0.0.1:8765")
PIPELINE = "operations"
RECIPE = Path(__file__).with_name("recent_incidents.json")
EVENTS = [
    ("failed", "api", "The api returned 500 for 3 minutes"),
    ("deployed", "web", "web 2.1 is live"),
    ("failed", "api", "The api lost its database"),
    ("failed", "mail", "mail is late"),
]


def main() -> None:
    with connect_sync(SERVER) as client:
        client.deploy({"pipeline_name": "operations", "agents": []}, uid=PIPELINE)
        events = [
            {
                "stream_id": service,
                "event_type": kind,
                "payload": {"service": service, "message": message},
            }
            for kind, service, message in EVENTS
        ]
        # The key makes the append safe to repeat: a second run adds no event.
        client.events.append(
            PIPELINE, "incidents", events, auto_create=True, idempotency_key="first-events"
        )
        client.recipes.store(PIPELINE, [json.loads(RECIPE.read_text())])
        result = client.recipes.execute(PIPELINE, id="recent_incidents")
        print(result["formattedOutput"])


if __name__ == "__main__":
    main()
