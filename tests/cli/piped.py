"""The real program with something on its stdin."""

import subprocess

from tests.support.program import COMMAND, Ended, Program


def piped(program: Program, said: bytes, *arguments: str) -> Ended:
    """Runs a command to its end."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=program.folder,
        env=program.environment,
        input=said,
        capture_output=True,
        timeout=120,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())
