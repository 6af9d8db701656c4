"""What every page of a pipeline reports: that nothing answers, and why."""

from typing import Any

from memrelay.web.api.directory import Served
from memrelay.web.api.status import EVICTS, NOT_PERSISTENT
from memrelay.web.console.format import format_pause

Json = dict[str, Any]
NO_WORKERS = "No worker is running. Messages wait on the bus until one starts: memrelay worker"
NO_OWNER = "No worker serves this pipeline. Messages wait on the bus until one does."


def find_row(status: Json, uid: str) -> Json | None:
    """Return the row of a pipeline in the status of the system."""
    rows: list[Json] = status["pipelines"]
    return next((row for row in rows if row["pipeline_uid"] == uid), None)


def list_notices(status: Json | None, served: Served) -> list[str]:
    """Return the warnings about a pipeline, none if the status is unknown."""
    row = find_row(status, served.deployed.uid) if status else None
    if status is None or row is None:
        return []
    if row["paused"]:
        return [format_pause(row["paused"])]
    if row["owner"]:
        return []
    return [NO_OWNER if status["workers"] else NO_WORKERS]


def describe_durability(status: Json) -> Json:
    """Return {meaning, is_lacking}: how safe acknowledged messages are on the bus."""
    meaning: str = status["durability"]["meaning"]
    return {"meaning": meaning, "is_lacking": meaning in (NOT_PERSISTENT, EVICTS)}
