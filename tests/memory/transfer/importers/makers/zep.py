"""Write the fixtures of Zep CE: exports of PostgreSQL from tables with the columns of Zep CE, and
answers of its REST API made by the models of `zep-python==2.0.2`.

Run it with that package and the programs of PostgreSQL: `python zep.py FOLDER BIN_FOLDER`.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from zep_python.types.message import Message
from zep_python.types.message_list_response import MessageListResponse

PROJECT = "11111111-1111-4111-8111-111111111111"
COMMON = (
    "uuid uuid NOT NULL PRIMARY KEY, id bigserial, created_at timestamptz NOT NULL, "
    "updated_at timestamptz, deleted_at timestamptz, "
)
MESSAGE_COLUMNS = (
    "session_id varchar NOT NULL REFERENCES sessions (session_id), project_uuid uuid NOT NULL, "
    "role varchar NOT NULL, role_type role_type_enum, content varchar NOT NULL, "
    "token_count bigint NOT NULL, metadata jsonb"
)
USER_COLUMNS = (
    "user_id varchar NOT NULL UNIQUE, email varchar, first_name varchar, last_name varchar, "
    "project_uuid uuid NOT NULL, metadata jsonb"
)
SESSION_COLUMNS = (
    "uuid uuid NOT NULL PRIMARY KEY, id bigserial, session_id varchar NOT NULL UNIQUE, "
    "created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, deleted_at timestamptz, "
    "ended_at timestamptz, metadata jsonb, user_id varchar REFERENCES users (user_id), "
    "project_uuid uuid NOT NULL"
)
SCHEMA = f"""
CREATE TABLE users ({COMMON}{USER_COLUMNS});
CREATE TYPE role_type_enum AS
ENUM ('norole', 'system', 'assistant', 'user', 'function', 'tool');
CREATE TABLE sessions ({SESSION_COLUMNS});
CREATE TABLE messages ({COMMON}{MESSAGE_COLUMNS});
"""
DAY = "2026-05-04"
# Session, role, type, content and whether it is deleted.
MESSAGES = (
    ("s1", "Lin", "user", "Hi, it's me: 'Lin'.", False),
    ("s1", "bot", "assistant", "Hello Lin;\nhow can I help?\n); -- not the end", False),
    ("s1", "Lin", "user", "C:\\temp\\ är voll, 50 % 🚀", False),
    ("s2", "Mo", "user", "Forget this.", True),
    ("s2", "Mo", "user", "NULL, 'quoted', (nested)", False),
    ("s3", "", "norole", "Nobody owns this session.", False),
)


def statements() -> str:
    """Return the SQL that fills the tables."""
    users = [
        f"({text(uuid(1, n))}, {n}, '{DAY}', '{DAY}', NULL, '{name}', '{name}@example.com', "
        f"'{name.title()}', NULL, '{PROJECT}', '{{}}')"
        for n, name in enumerate(("lin", "mo"), 1)
    ]
    sessions = [
        f"({text(uuid(2, n))}, {n}, '{name}', '{DAY}', '{DAY}', NULL, NULL, '{{}}', {user}, "
        f"'{PROJECT}')"
        for n, (name, user) in enumerate((("s1", "'lin'"), ("s2", "'mo'"), ("s3", "NULL")), 1)
    ]
    rows = []
    for n, (session, role, kind, content, is_deleted) in enumerate(MESSAGES, 1):
        at = f"'{DAY} 10:00:0{n}.25+00'"
        rows.append(
            f"({text(uuid(3, n))}, {n}, {at}, {at}, {at if is_deleted else 'NULL'}, '{session}', "
            f"'{PROJECT}', {text(role)}, '{kind}', {text(content)}, {n}, '{{\"lang\": \"en\"}}')"
        )
    return "".join(
        f"INSERT INTO {table} VALUES {', '.join(values)};\n"
        for table, values in (("users", users), ("sessions", sessions), ("messages", rows))
    )


def uuid(table: int, number: int) -> str:
    """Return the uuid of a row."""
    return f"{table:08d}-0000-4000-8000-{number:012d}"


def text(value: str) -> str:
    """Return a text as SQL."""
    return "'" + value.replace("'", "''") + "'"


class Server:
    """A PostgreSQL server on a socket in a folder. It does not run as root."""

    def __init__(self, bin_folder: Path, folder: Path) -> None:
        self._bin, self._folder = bin_folder, folder
        self._user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        self._user = self._user if os.getuid() == 0 else []

    def run(self, program: str, *given: str, stdin: str = "") -> str:
        """Run a program of PostgreSQL and return its output."""
        command = [*self._user, str(self._bin / program), *given]
        done = subprocess.run(
            command, input=stdin, capture_output=True, check=True, text=True, cwd=self._folder
        )
        return done.stdout

    def start(self) -> None:
        """Create and start it."""
        if self._user:
            shutil.chown(self._folder, "postgres", "postgres")
        self.run("initdb", "-D", "data", "-A", "trust", "-U", "zep", "-E", "UTF8", "--locale=C")
        options = f"-c listen_addresses= -c timezone=UTC -k {self._folder}"
        self.run("pg_ctl", "-D", "data", "-w", "-o", options, "-l", "log", "start")

    def stop(self) -> None:
        """Stop it."""
        self.run("pg_ctl", "-D", "data", "-m", "immediate", "stop")


def write(folder: Path, bin_folder: Path) -> None:
    """Write the exports of the database and the answer of the REST API."""
    with tempfile.TemporaryDirectory(prefix="zep-", dir="/tmp") as name:
        server, access = Server(bin_folder, Path(name)), ("-h", name, "-U", "zep", "postgres")
        server.start()
        try:
            server.run("psql", "-q", *access, stdin=SCHEMA + statements())
            dump = server.run("pg_dump", "--data-only", "--inserts", *access)
            (folder / "zep.sql").write_text(without_version(dump))
            dump = server.run("pg_dump", "--data-only", "--column-inserts", *access)
            (folder / "zep_columns.sql").write_text(without_version(dump))
            for kind, query in QUERIES.items():
                (folder / kind).write_text(server.run("psql", "-qAt", *access, stdin=query))
        finally:
            server.stop()
    (folder / "zep_rest.json").write_text(json.dumps(answer(), indent=1) + "\n")


def without_version(dump: str) -> str:
    """Return a dump without the lines that differ between releases and runs of pg_dump."""
    lines = dump.splitlines(keepends=True)
    return "".join(
        line for line in lines if not line.startswith(("-- Dumped", "\\restrict", "\\unrestrict"))
    )


QUERIES = {
    "zep_messages.csv": "COPY (SELECT m.*, s.user_id FROM messages AS m JOIN sessions AS s "
    "USING (session_id) ORDER BY m.id) TO STDOUT WITH (FORMAT csv, HEADER)",
    "zep.json": "SELECT json_build_object("
    "'users', (SELECT json_agg(u ORDER BY id) FROM users AS u), "
    "'sessions', (SELECT json_agg(s ORDER BY id) FROM sessions AS s), "
    "'messages', (SELECT json_agg(m ORDER BY id) FROM messages AS m))",
}


def answer() -> dict[str, object]:
    """Return the answer of GET /api/v2/sessions/s1/messages."""
    messages = [
        Message(
            uuid=uuid(3, n),
            created_at=f"{DAY}T10:00:0{n}.25Z",
            updated_at=f"{DAY}T10:00:0{n}.25Z",
            role=role,
            role_type=kind,
            content=content,
            token_count=n,
            metadata={"lang": "en"},
        )
        for n, (session, role, kind, content, _) in enumerate(MESSAGES, 1)
        if session == "s1"
    ]
    page = MessageListResponse(messages=messages, row_count=3, total_count=3)
    found: dict[str, object] = json.loads(page.json())
    return found


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
