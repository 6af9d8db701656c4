"""The context of a project from a store file, for the hook: prints it, or nothing.

`python -m memrelay.capture.file_context CONFIG STATE PROJECT`
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from memrelay.capture.configuration import Paths, load
from memrelay.embedded.store import open_store


def find_text(arguments: Sequence[str]) -> str:
    """Return the context of a project, "" without a store. Raises MemoryFault and NotTheOwner."""
    config, state, project = arguments
    configuration = load(Paths(Path(config), Path(state)))
    if not Path(configuration.file).exists():
        return ""
    with open_store(configuration.file, "capture", embedder="none") as store:
        given = {"project": project, "user": configuration.user}
        return str(store.operate("capture.context", given)["text"])


if __name__ == "__main__":
    sys.stdout.write(find_text(sys.argv[1:]))
