"""A disk that does not give what it has (tests/faults/failing_disk.c)."""

import subprocess
from pathlib import Path

from tests.support.child import CHECKOUT

SOURCE = CHECKOUT / "tests" / "faults" / "failing_disk.c"


class FailingDisk:
    """For the processes that are started in its environment."""

    def __init__(self, folder: Path) -> None:
        """Compiles into `folder`; the disk is sound yet."""
        self._ends, library = folder / "ends", folder / "failing_disk.so"
        subprocess.run(
            ["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, SOURCE],
            check=True,
            timeout=60,
        )
        self.environment = {"LD_PRELOAD": str(library), "FAILING_DISK": str(self._ends)}

    def fail(self, *ends: str) -> None:
        """Files whose paths end like that cannot be read from now on; without any the disk is sound
        again."""
        draft = self._ends.with_suffix(".new")
        draft.write_text("\n".join(ends))
        draft.rename(self._ends)
