"""The runs of sessions of memrelay.integrations.agno, as documents."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from agno.db.in_memory.utils import apply_sorting
from agno.db.utils import deserialize_run, get_run_type, json_serializer
from agno.run.base import RunStatus

from memrelay.agents.calls import CallSteps, Result
from memrelay.integrations.conversation import Json
from memrelay.integrations.documents import Documents, find_documents

# The scopes of the documents.
SESSIONS, RUNS = "agno/sessions", "agno/runs"
COMPONENTS = {"agent": "agent_id", "team": "team_id", "workflow": "workflow_id"}
RUN_ID, INDEX = "run_id", "run_index"


class Runs:
    """The methods of BaseDb for runs. Each run is a document in the scope of its session."""

    _sessions: Documents
    # Opens the runs of a session.
    _open: Callable[[str], Documents]

    def get_run(self, run_id: str, deserialize: bool | None = True) -> Any:
        """Return a run, or None."""
        runs = [run for _, run in self._find_runs(run_id=run_id)]
        return _show_runs(runs, deserialize)[0] if runs else None

    def get_runs(
        self,
        session_id: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        team_id: str | None = None,
        *,
        workflow_id: str | None = None,
        status: RunStatus | None = None,
        limit: int | None = None,
        page: int | None = None,
        sort_by: str | None = None,
        sort_order: str | None = None,
        deserialize: bool | None = True,
    ) -> list[Any] | tuple[list[Json], int]:
        """Return the runs that fit, and without `deserialize` their number on all pages too."""
        given = {**dict(zip(COMPONENTS.values(), (agent_id, team_id, workflow_id), strict=True))}
        given["status"] = getattr(status, "value", status)
        conditions = {name: value for name, value in given.items() if value is not None}
        found = self._find_runs(session_id=session_id)
        if user_id is not None:
            sessions = self._run(self._sessions.list())
            found = [one for one in found if sessions.get(one[0], {}).get("user_id") == user_id]
        runs = [run for _, run in found if conditions.items() <= run.items()]
        shown = take_page(apply_sorting(runs, sort_by, sort_order), limit, page)
        return _show_runs(shown, deserialize) if deserialize else (shown, len(runs))

    def upsert_run(
        self, run: Any, session_id: str, user_id: str | None = None, run_index: int | None = None
    ) -> None:
        """Write a run of a session. It is ignored if there is no such session, or if the session is
        that of another user.
        """
        session = self.read_session(session_id)
        if session is not None and (not user_id or session.get("user_id") in (None, user_id)):
            self.write_run(run, session_id, run_index)

    def delete_run(self, run_id: str) -> bool:
        """Delete a run, and return whether there was one."""
        found = self._find_runs(run_id=run_id)
        for session_id, _ in found:
            self._run(self._open(session_id).delete([run_id]))
        return bool(found)

    def delete_runs(self, run_ids: list[str]) -> None:
        """Delete runs."""
        for run_id in run_ids:
            self.delete_run(run_id)

    def _run(self, steps: CallSteps[Result]) -> Result:
        return self._sessions.calls.run_steps(steps)

    def read_session(self, session_id: str, user_id: str | None = None) -> Json | None:
        """Return a session of a user without its runs, or None."""
        row: Json | None = self._run(self._sessions.get(session_id))
        if row is None or user_id not in (None, row.get("user_id")):
            return None
        return row

    def write_run(self, run: Any, session_id: str, run_index: int | None) -> None:
        """Write a run. Raises ValueError if it has no id."""
        new = to_json(as_dict(run))
        if not new.get(RUN_ID):
            raise ValueError("a run needs a run_id")
        runs = self._open(session_id)
        before = self._run(runs.get(new[RUN_ID])) or {}
        if INDEX in before:
            new[INDEX] = before[INDEX]
        elif run_index is not None and INDEX not in new:
            new[INDEX] = run_index
        self._run(runs.put(new[RUN_ID], new))

    def read_runs(self, session_id: str) -> list[Json]:
        """Return the runs of a session, the oldest first."""
        return [*self._run(self._open(session_id).list()).values()]

    def _find_runs(self, session_id: str | None = None, run_id: str = "") -> list[tuple[str, Json]]:
        """Return runs with their sessions, the oldest first."""
        if session_id is not None:
            return [(session_id, run) for run in self.read_runs(session_id)]
        found = self._run(find_documents(RUNS, run_id))
        return [(scope.removeprefix(f"{RUNS}/"), run) for scope, run in found]


def take_page(rows: list[Json], limit: int | None, page: int | None) -> list[Json]:
    """Return a page of rows, counted from 1, or all of them."""
    if limit is None:
        return rows
    first = ((page or 1) - 1) * limit
    return rows[first : first + limit]


def to_json(row: Json) -> Json:
    """Return what Agno stores in JSON columns."""
    value: Json = json.loads(json_serializer(row))
    return value


def as_dict(run: Any) -> Json:
    """Return a run as a dictionary."""
    value: Json = run if isinstance(run, dict) else run.to_dict()
    return value


def _show_runs(runs: Sequence[Json], deserialize: bool | None) -> list[Any]:
    return [deserialize_run(get_run_type(run), run) if deserialize else run for run in runs]
