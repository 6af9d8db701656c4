"""Programs of pages and examples, run as they are printed, each in a process of its own."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.model_server import ModelServer

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "docs/integrations"
EXAMPLES = ROOT / "examples"
FENCE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TIMEOUT_S = 60.0


def read_program(extra: str, number: int = 0) -> str:
    """Return a Python program of docs/integrations/<extra>.md, by default the first one."""
    return FENCE.findall((PAGES / f"{extra}.md").read_text())[number]


def run(
    program: str | Path,
    folder: Path,
    *arguments: str,
    kill: bool = False,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a program, as text or as a file, in a folder. Return what it printed.

    With `kill`, SIGKILL ends the program when it has printed its first line.
    """
    if isinstance(program, str):
        text, program = program, folder / "program.py"
        program.write_text(text)
    errors = folder / "program.err"
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-u", str(program), *arguments],
            cwd=folder,
            env=os.environ | dict(environment or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
    assert process.stdout is not None
    try:
        if kill:
            printed = process.stdout.readline()
            process.kill()
            process.wait(TIMEOUT_S)
            assert printed, errors.read_text()[-4000:]
            return printed
        printed, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
        process.wait(TIMEOUT_S)
        process.stdout.close()
    assert process.returncode == 0, printed + errors.read_text()[-4000:]
    return printed


def assert_page_remembers(
    extra: str,
    folder: Path,
    counts: tuple[int, int],
    *,
    field: str = "messages",
    address: str = "OPENAI_BASE_URL",
) -> None:
    """Fail unless the program of a page is killed, runs again, and sends the first conversation.

    `counts` are the numbers of messages in the requests of both runs, which have them in `field`.
    The environment variable `address` selects the model.
    """
    program = read_program(extra)

    def answer(request: Any) -> str:
        return f"{len(request[field])} messages"

    with ModelServer(reply=answer) as model:
        environment = {address: model.url, "OPENAI_API_KEY": "key"}
        first = run(program, folder, kill=True, environment=environment)
        second = run(program, folder, "Which cake may I eat?", environment=environment)
        asked = str(model.requests[-1][field])

    assert [first, second] == [f"{count} messages\n" for count in counts]
    assert "I am allergic to nuts." in asked and f"{counts[0]} messages" in asked


def assert_example_remembers(name: str, folder: Path) -> None:
    """Fail unless the second run of an example knows what the first one was told."""
    agent = EXAMPLES / name / "agent.py"

    run(agent, folder, "I am allergic to nuts.")
    printed = run(agent, folder, "Which cake may I eat?")

    assert printed == "Before that, you said: I am allergic to nuts.\n"
