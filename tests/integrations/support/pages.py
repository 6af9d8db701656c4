"""Programs of pages and examples, run as they are printed, each in a process of its own."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

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
