"""A home folder with the hook installed, in which tests run recorded sessions of coding tools."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memrelay import open_store
from memrelay.capture.configuration import HOOK, Configuration, Paths, copy_hook, find_paths, save
from memrelay.capture.sender import main
from tests.support.http import Answer, ask

PAYLOADS = Path(__file__).parent.parent / "capture/payloads"
TOOLS = ("claude-code", "codex", "gemini-cli", "cursor", "opencode")
# A sender that does nothing, so that a test sends when it wants.
NO_SENDER = "/bin/true"
FOREVER_S = 60
# Seconds: until the hook ends, and that it waits for a context of a server and of a file.
LIMITS = "DEADLINE_S, CONTEXT_S, FILE_CONTEXT_S = 2.0, 1.0, 1.5"
PATIENT_LIMITS = "DEADLINE_S, CONTEXT_S, FILE_CONTEXT_S = 60.0, 50.0, 50.0"
GIT_CONFIG = '[core]\n\tbare = false\n[remote "origin"]\n\turl = {url}\n\tfetch = +refs/*\n'
Json = dict[str, Any]


@dataclass
class CaptureHome:
    """A home folder and a project in it, a repository of git."""

    folder: Path

    @property
    def paths(self) -> Paths:
        return find_paths({}, self.folder)

    @property
    def project(self) -> Path:
        return self.folder / "work/app"

    def install(self, *, python: str = NO_SENDER, key: str | None = None, **values: Any) -> None:
        """Write a configuration, by default for a store file, and copy the hook."""
        if "url" not in values:
            values.setdefault("file", str(self.store))
        save(self.paths, Configuration(user="ada", python=python, **values), key)
        copy_hook(self.paths)
        # A busy machine needs longer than a person may wait.
        self.limit(PATIENT_LIMITS)

    def limit(self, limits: str) -> None:
        """Give the copy of the hook other time limits than those of LIMITS."""
        text = HOOK.read_text()
        assert LIMITS in text
        self.paths.hook_module.write_text(text.replace(LIMITS, limits))

    @property
    def store(self) -> Path:
        return self.folder / "memory.db"

    def make_repository(self, url: str = "https://git:tok3n@git.example.com/team/app.git") -> None:
        """Write the files of a repository that the hook reads."""
        git = self.project / ".git"
        (git / "info").mkdir(parents=True, exist_ok=True)
        (self.project / "src").mkdir(exist_ok=True)
        (git / "HEAD").write_text("ref: refs/heads/feature/ports\n")
        (git / "config").write_text(GIT_CONFIG.format(url=url))

    def start_hook(self, tool: str, payload: Json | bytes) -> subprocess.Popen[bytes]:
        """Start the hook with a payload as a coding tool does."""
        command = ["python3", "-I", "-S", str(self.paths.hook), tool]
        environment = {"HOME": str(self.folder), "PATH": os.environ["PATH"]}
        hook = subprocess.Popen(
            command,
            env=environment,
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert hook.stdin is not None
        hook.stdin.write(payload if isinstance(payload, bytes) else json.dumps(payload).encode())
        hook.stdin.close()
        hook.stdin = None
        return hook

    def run_hook(self, tool: str, payload: Json | bytes) -> str:
        """Run the hook and return what it prints. It must end well and without complaints."""
        hook = self.start_hook(tool, payload)
        printed, complaints = hook.communicate(timeout=FOREVER_S)
        assert (hook.returncode, complaints) == (0, b"")
        return printed.decode()

    def prompt(self, text: str, **fields: Any) -> str:
        """Run the hook with a prompt of Claude Code."""
        return self.run_hook("claude-code", make_prompt(self.project, text) | fields)

    def play(self, tool: str) -> list[str]:
        """Run the hook with each event of a recorded session, and return what it printed."""
        return [self.run_hook(tool, payload) for payload in read_session(tool, self)]

    def send(self) -> None:
        """Run the sender in this process, without waiting for a store that is not reached."""
        main([str(self.paths.config), str(self.paths.state)], pauses_s=())

    def start_sender(self) -> subprocess.Popen[bytes]:
        """Start the sender as the hook does."""
        folders = (str(self.paths.config), str(self.paths.state))
        return subprocess.Popen([sys.executable, "-E", "-m", "memrelay.capture.sender", *folders])

    def spooled(self) -> list[Json]:
        """Return the events in the spool."""
        segments = sorted(self.paths.spool.glob("*")) if self.paths.spool.exists() else []
        return [json.loads(line) for one in segments for line in one.read_bytes().splitlines()]

    def stored(self, session: str) -> list[str]:
        """Return the texts of a session of Claude Code in the store file."""
        with open_store(self.store) as store:
            turns = store.turns.list(thread=f"capture/claude-code/{session}", limit=1000)
        return [one.content for one in turns.items]

    def all_bytes(self) -> bytes:
        """Return everything that capture has written, except the hook and the patterns."""
        files = [one for one in self.paths.state.rglob("*") if one.is_file()]
        return b"\0".join(one.read_bytes() for one in files)

    @property
    def log(self) -> str:
        return self.paths.log.read_text() if self.paths.log.exists() else ""


def read_session(tool: str, home: CaptureHome) -> list[Json]:
    """Return the payloads of a recorded session in the project of a home."""
    transcript = PAYLOADS / f"{tool}.transcript.jsonl"
    text = (PAYLOADS / f"{tool}.jsonl").read_text()
    text = text.replace("{folder}", str(home.project)).replace("{transcript}", str(transcript))
    return [json.loads(line) for line in text.splitlines()]


def make_prompt(folder: Path, text: str) -> Json:
    """Return the payload of a prompt, as Claude Code sends it."""
    return {
        "session_id": "session-1",
        "cwd": str(folder),
        "hook_event_name": "UserPromptSubmit",
        "prompt": text,
    }


def make_result(folder: Path, given: Json, result: Any) -> Json:
    """Return the payload of a result of a tool, as Claude Code sends it."""
    return {
        "session_id": "session-1",
        "cwd": str(folder),
        "hook_event_name": "PostToolUse",
        "tool_name": "Read",
        "tool_input": given,
        "tool_response": result,
    }


def make_event(n: int, text: str = "") -> Json:
    """Return an event as the hook writes it into the spool."""
    return {
        "tool": "claude-code",
        "session": "session-1",
        "turn": f"turn-{n}",
        "role": "user" if n % 2 == 0 else "assistant",
        "at": 1_795_900_000_000 + n,
        "text": text or f"Text {n}",
        "project": "git.example.com/team/app",
        "branch": "main",
    }


def list_turns(url: str, uid: str, thread: str, **headers: str) -> list[Json]:
    """Return the turns of a thread on a server, oldest first."""
    path = f"/v1/pipelines/{uid}/turns?limit=1000&thread={thread}"
    answer: Answer = ask(url, "GET", path, b"", headers)
    assert answer.status == 200, answer
    items: list[Json] = answer.json["items"]
    return items
