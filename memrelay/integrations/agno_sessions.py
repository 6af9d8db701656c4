"""The sessions of memrelay.integrations.agno, as documents."""

import time
from typing import Any

from agno.db.base import SessionType
from agno.db.in_memory.utils import apply_sorting
from agno.db.utils import deserialize_session, detect_session_type, filter_context_runs
from agno.session import AgentSession, Session, TeamSession, WorkflowSession
from agno.utils.log import log_warning

from memrelay.integrations.agno_runs import COMPONENTS, Runs, as_dict, take_page, to_json
from memrelay.integrations.conversation import Json

TYPES = {AgentSession: "agent", TeamSession: "team", WorkflowSession: "workflow"}


class Sessions(Runs):
    """The methods of BaseDb for sessions. Each session is a document, without its runs."""

    def get_session(
        self,
        session_id: str,
        session_type: SessionType | None = None,
        user_id: str | None = None,
        deserialize: bool | None = True,
        runs_limit: int | None = None,
    ) -> Session | Json | None:
        """Return a session of a user with its runs, or None."""
        row = self.read_session(session_id, user_id)
        if row is None:
            return None
        runs = self.read_runs(session_id)
        if runs_limit is not None:
            runs = filter_context_runs(runs)[-runs_limit:] if runs_limit else []
        row["runs"] = runs or None
        return deserialize_session(session_type, row) if deserialize else row

    def get_sessions(
        self,
        session_type: SessionType | None = None,
        user_id: str | None = None,
        component_id: str | None = None,
        session_name: str | None = None,
        *,
        start_timestamp: int | None = None,
        end_timestamp: int | None = None,
        limit: int | None = None,
        page: int | None = None,
        sort_by: str | None = None,
        sort_order: str | None = None,
        deserialize: bool | None = True,
        include_runs: bool = True,
    ) -> list[Session] | tuple[list[Json], int]:
        """Return the sessions that fit, and without `deserialize` their number on all pages too."""
        kind = getattr(session_type, "value", session_type)
        fields = [COMPONENTS[kind]] if kind in COMPONENTS else [*COMPONENTS.values()]
        rows = [
            row
            for row in self._run(self._sessions.list()).values()
            if user_id is None or row.get("user_id") == user_id
            if kind is None or detect_session_type(row) == kind
            if component_id is None or component_id in [row.get(field) for field in fields]
            if start_timestamp is None or (row.get("created_at") or 0) >= start_timestamp
            if end_timestamp is None or (row.get("created_at") or 0) <= end_timestamp
            if session_name is None or session_name.lower() in _name(row).lower()
        ]
        shown = take_page(apply_sorting(rows, sort_by, sort_order), limit, page)
        for row in shown:
            row["runs"] = (self.read_runs(row["session_id"]) or None) if include_runs else None
        if not deserialize:
            return shown, len(rows)
        return [deserialize_session(session_type, row) for row in shown]

    def upsert_session(self, session: Session, deserialize: bool | None = True) -> Any:
        """Write a session, and return it. Its runs are written when it is new, and by `upsert_run`.

        A session of another user is not changed: then the result is None.
        """
        row = to_json(session.to_dict(include_runs=False))
        row["session_type"] = TYPES[type(session)]
        before = self.read_session(row["session_id"])
        if before is not None and before.get("user_id") not in (None, row.get("user_id")):
            log_warning(f"session {row['session_id']!r} is not kept: it belongs to another user")
            return None
        now = int(time.time())
        if before is None:
            row["created_at"] = row.get("created_at") or now
            row["updated_at"] = row["created_at"]
            for number, run in enumerate(session.runs or ()):
                self.write_run(run, row["session_id"], number)
        else:
            row["updated_at"] = now
        self._run(self._sessions.put(row["session_id"], row))
        if not deserialize:
            row["runs"] = [as_dict(run) for run in session.runs or ()]
            return row
        written = deserialize_session(None, row)
        written.runs = session.runs
        return written

    def upsert_sessions(
        self,
        sessions: list[Session],
        deserialize: bool | None = True,
        preserve_updated_at: bool = False,
    ) -> list[Any]:
        """Write sessions one by one, and return those that were written."""
        written = [self.upsert_session(session, deserialize) for session in sessions]
        return [session for session in written if session is not None]

    def rename_session(
        self,
        session_id: str,
        session_type: SessionType | None,
        session_name: str,
        user_id: str | None = None,
        deserialize: bool | None = True,
    ) -> Any:
        """Set the name of a session, and return it, or None if there is none."""
        row = self.read_session(session_id, user_id)
        kind = getattr(session_type, "value", session_type)
        if row is None or kind not in (None, detect_session_type(row)):
            return None
        row["session_data"] = (row.get("session_data") or {}) | {"session_name": session_name}
        self._run(self._sessions.put(session_id, row))
        return self.get_session(session_id, session_type, user_id, deserialize)

    def delete_session(self, session_id: str, user_id: str | None = None) -> bool:
        """Delete a session of a user with its runs, and return whether there was one."""
        if self.read_session(session_id, user_id) is None:
            return False
        runs = self._open(session_id)
        self._run(runs.delete([*self._run(runs.list())]))
        return self._run(self._sessions.delete([session_id])) > 0

    def delete_sessions(self, session_ids: list[str], user_id: str | None = None) -> None:
        """Delete sessions of a user with their runs."""
        for session_id in session_ids:
            self.delete_session(session_id, user_id)


def _name(row: Json) -> str:
    return (row.get("session_data") or {}).get("session_name") or ""
