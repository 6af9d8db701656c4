"""A disk that fails to read (tests/faults/failing_disk.c)."""

import subprocess
from pathlib import Path

from tests.support.child import CHECKOUT

SOURCE = CHECKOUT / "tests" / "faults" / "failing_disk.c"


class FailingDisk:
    """Applies to processes that are started in its environment."""

    def __init__(self, folder: Path) -> None:
        """Compile the library into `folder`; no reads fail yet."""
        self._ends, library = folder / "ends", folder / "failing_disk.so"
        subprocess.run(
            ["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, SOURCE],
            check=True,
            timeout=60,
        )
        self.environment = {"LD_PRELOAD": str(library), "FAILING_DISK": str(self._ends)}

    def fail(self, *ends: str) -> None:
        """Make reads of files with these path endings fail from now on; without arguments, reads
        succeed again.
        """
        draft = self._ends.with_suffix(".new")
        draft.write_text("\n".join(ends))
        draft.rename(self._ends)
