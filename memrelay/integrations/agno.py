"""A database of Agno for sessions and user memories. It needs the extra `agno`."""

from collections.abc import Callable
from typing import Any

from memrelay.agents.calls import make_calls
from memrelay.installation import missing_framework
from memrelay.integrations.documents import Documents

try:
    from agno.db.base import BaseDb
except ImportError as error:
    raise ImportError(missing_framework("Agno", "agno")) from error

from memrelay.integrations.agno_memories import UserMemories
from memrelay.integrations.agno_runs import RUNS, SESSIONS
from memrelay.integrations.agno_sessions import Sessions


def _not_kept(what: str) -> Callable[..., Any]:
    """Return a method of BaseDb for something that this database does not keep."""

    def method(self: BaseDb, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError(
            f"MemrelayDb keeps sessions and user memories, no {what}; use a database of Agno, such "
            "as SqliteDb, where Agno takes one for them"
        )

    return method


class MemrelayDb(Sessions, UserMemories, BaseDb):
    """Sessions, runs and user memories of agents, teams and workflows.

    - `call` is a store of `open_store`, or a client of `connect_sync`.
    - `uid` is the pipeline of a client, by default its only one. `store` is the memory_id of the
      user memories.
    - `id` is the name of the database for Agno.

    The user and the session are those of each run. The methods of BaseDb for metrics, knowledge,
    evals, traces and learnings raise NotImplementedError. Raises TypeError for another `call`.
    """

    def __init__(self, call: Any, *, uid: str = "", store: str = "", id: str = "memrelay") -> None:
        super().__init__(id=id)
        self._calls = make_calls(call, uid=uid, store=store)
        self._sessions = Documents(call, SESSIONS, uid=uid)
        self._open = lambda session_id: Documents(call, f"{RUNS}/{session_id}", uid=uid)

    def table_exists(self, table_name: str) -> bool:
        """Return whether the table is kept."""
        kept = (self.session_table_name, self.runs_table_name, self.memory_table_name)
        return table_name in kept

    def get_latest_schema_version(self, table_name: str = "") -> str:
        """Return the version of Agno's tables. There are none to migrate."""
        return str(self.default_schema_version)

    def upsert_schema_version(self, table_name: str = "", version: str = "") -> None:
        """Ignore it: there are no tables to migrate."""

    get_metrics = calculate_metrics = _not_kept("metrics")
    get_knowledge_content = get_knowledge_contents = _not_kept("knowledge")
    upsert_knowledge_content = delete_knowledge_content = _not_kept("knowledge")
    create_eval_run = get_eval_run = get_eval_runs = _not_kept("evals")
    delete_eval_runs = rename_eval_run = _not_kept("evals")
    upsert_trace = get_trace = get_traces = get_trace_stats = _not_kept("traces")
    create_span = create_spans = get_span = get_spans = _not_kept("traces")
    get_learning = get_learnings = upsert_learning = delete_learning = _not_kept("learnings")
