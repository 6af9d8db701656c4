"""Real coding tools from npm, with a model on loopback: what is said arrives, and comes back.

Each tool starts without an account. Cursor does not, so tests/capture/payloads has its documented
payloads.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.child import CHECKOUT
from tests.support.coding_models import CodingModels
from tests.support.npm import NODE, NPM, npm_environment, npm_packages
from tests.support.program import Program
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

PACKAGES = Path(__file__).parent / "coding_tools"
UID = "coding"
SAMPLE = CHECKOUT / "memrelay/pipelines/conversation.json"
PROMPT, ANSWER = "I like green tea in the morning", "I will remember the tea"
SECOND = "Which tea do I like?"
OUTPUT = "steeped 1234"
SHELL = "printf 'steeped %d' 1234"
TOOL_TIMEOUT_S = 120
# No tool reaches another machine, updates itself or reports its use.
QUIET = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "IS_SANDBOX": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
}


@dataclass(frozen=True)
class Tried:
    """How a tool is started with a model on loopback."""

    program: str
    """A pattern of its file below node_modules. No install script has run."""
    arguments: tuple[str, ...]
    """They come before the prompt."""
    call: tuple[str, dict[str, Any]]
    """A call of the tool that runs SHELL."""
    path: str
    """The path of the requests to the model."""
    configure: Callable[[Path, str], dict[str, str]]
    """Writes settings into a home, for the URL of the model, and returns variables."""


def configure_claude_code(home: Path, url: str) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "dummy"}


def configure_codex(home: Path, url: str) -> dict[str, str]:
    provider = f'name = "stub"\nbase_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "STUB"\n'
    (home / ".codex").mkdir()
    (home / ".codex/config.toml").write_text(
        'model = "stub"\nmodel_provider = "stub"\ncheck_for_update_on_startup = false\n'
        f"[analytics]\nenabled = false\n[model_providers.stub]\n{provider}"
    )
    return {"STUB": "dummy"}


def configure_gemini_cli(home: Path, url: str) -> dict[str, str]:
    (home / ".gemini").mkdir()
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True},
    }
    (home / ".gemini/settings.json").write_text(json.dumps(settings))
    return {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "dummy"}


def configure_opencode(home: Path, url: str) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "dummy"},
        "models": {"stub": {"name": "stub"}},
    }
    # Without npm, opencode would try for a minute to install the package of plugins.
    (home / ".npmrc").write_text("offline=true\nfetch-retries=0\n")
    folder = home / ".config/opencode"
    folder.mkdir(parents=True)
    (folder / "opencode.json").write_text(
        json.dumps({"model": "stub/stub", "share": "disabled", "provider": {"stub": provider}})
    )
    return {}


TOOLS = {
    "claude-code": Tried(
        "@anthropic-ai/claude-code-*/claude",
        ("--model", "sonnet", "--allowedTools", "Bash", "-p"),
        ("Bash", {"command": SHELL, "description": "Steep"}),
        "/v1/messages",
        configure_claude_code,
    ),
    "codex": Tried(
        "@openai/codex/bin/codex.js",
        (
            "exec",
            "--dangerously-bypass-hook-trust",
            "--dangerously-bypass-approvals-and-sandbox",
        ),
        ("exec_command", {"cmd": SHELL}),
        "/v1/responses",
        configure_codex,
    ),
    "gemini-cli": Tried(
        "@google/gemini-cli/bundle/gemini.js",
        ("--model", "gemini-2.5-flash", "--approval-mode", "yolo", "--prompt"),
        ("run_shell_command", {"command": SHELL}),
        ":streamGenerateContent",
        configure_gemini_cli,
    ),
    "opencode": Tried(
        "opencode-*/bin/opencode",
        ("run",),
        ("bash", {"command": SHELL, "description": "Steep"}),
        "/v1/chat/completions",
        configure_opencode,
    ),
}


@pytest.fixture(scope="module")
def packages() -> Path:
    """Return the folder with the tools. Skip the test only if npm cannot be reached."""
    try:
        return npm_packages(PACKAGES)
    except subprocess.CalledProcessError:
        ping = subprocess.run([NODE, NPM, "ping"], env=npm_environment(), capture_output=True)
        if ping.returncode == 0:
            raise
        pytest.skip("npm cannot be reached")


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    """Yield a running program with a pipeline for turns."""
    with Program() as program:
        program.up()
        assert program.run("deploy", SAMPLE, "--uid", UID).code == 0
        yield program


class Session:
    """A tool in the home of a user, who works in a project."""

    def __init__(self, name: str, program: Program, packages: Path, home: Path) -> None:
        self.name, self._tried, self._program = name, TOOLS[name], program
        self._home, self._project = home, home / "tea"
        self.project = f"git.example.com/ada/{name}"
        file = sorted(packages.glob(self._tried.program))[0]
        self._command = [*[NODE] * (file.suffix == ".js"), str(file)]
        self._project.mkdir()
        for command in ("init -q", f"remote add origin https://ada:pw@{self.project}.git"):
            subprocess.run(["git", *command.split()], cwd=self._project, check=True)

    def install(self) -> None:
        port = re.findall(r"http://127\.0\.0\.1:(\d+)", self._program.output)[-1]
        ended = self._program.run(
            *("capture", "install", self.name, "--user", "ada"),
            HOME=str(self._home),
            MEMRELAY_WEB__PORT=port,
        )
        assert ended.code == 0, ended.err

    def run(self, model: CodingModels, prompt: str, variables: dict[str, str]) -> None:
        keep = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        ended = subprocess.run(
            [*self._command, *self._tried.arguments, prompt],
            cwd=self._project,
            env={**keep, **npm_environment_path(), "HOME": str(self._home), **QUIET, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TOOL_TIMEOUT_S,
        )
        assert ended.returncode == 0, (ended, model.requests)
        assert ANSWER in ended.stdout, ended

    def turns(self) -> list[dict[str, Any]]:
        """Return all turns of the tool, the oldest first."""
        found = self._program.run("turns", "threads", UID).lines[0]["items"]
        threads = [one["thread"] for one in found if f"/{self.name}/" in one["thread"]]
        turns = [
            turn
            for thread in threads
            for turn in self._program.run("turns", "list", UID, "--thread", thread).lines[0][
                "items"
            ]
        ]
        return sorted(turns, key=lambda turn: turn["at"])

    def _list(self, thread: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._program.run(
            "turns", "list", UID, "--thread", thread
        ).lines[0]["items"]
        return found

    def requests(self, model: CodingModels) -> list[str]:
        return model.bodies(self._tried.path)


def npm_environment_path() -> dict[str, str]:
    """Return the PATH with the Node of the tests first."""
    return {"PATH": npm_environment()["PATH"]}


@pytest.mark.parametrize("name", TOOLS)
def test_a_session_is_captured_and_the_next_one_knows_it(
    name: str, program: Program, packages: Path, tmp_path: Path
) -> None:
    session, tried = Session(name, program, packages, tmp_path), TOOLS[name]
    with CodingModels(ANSWER, tried.call) as model:
        variables = tried.configure(tmp_path, model.url)
        session.install()
        session.run(model, PROMPT, variables)
        wait_for(lambda: len(session.turns()) >= 3, "three turns arrive", within_s=60)
        first = len(session.requests(model))
        session.run(model, SECOND, variables)
        wait_for(lambda: len(session.turns()) >= 5, "two more turns arrive", within_s=60)

        prompt, result, answer, *second = session.turns()
        assert [one["role"] for one in (prompt, result, answer)] == ["user", "tool", "assistant"]
        assert prompt["content"].strip('"') == PROMPT
        assert OUTPUT in result["content"] and " exit 0\n" in result["content"]
        assert answer["content"] == ANSWER
        # The context is not captured as if the user had typed it.
        assert [one["content"].strip('"') for one in second] == [SECOND, ANSWER]
        for turn in (prompt, result, answer, *second):
            assert turn["item"]["project"] == session.project
            assert turn["agent"] == name and turn["user"] == "ada"
        began = session.requests(model)[first:]
        assert any(PROMPT in body for body in began)
        assert not any(OUTPUT in body for body in began)
