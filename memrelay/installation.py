"""How this copy of Memrelay is installed: for the commands that messages and pages name."""

from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parent
# A checkout has its programs in .venv. A copy in an environment has them on the PATH.
IS_CHECKOUT = (PACKAGE.parent / "deploy" / "install.py").is_file()
PROGRAM = ".venv/bin/memrelay" if IS_CHECKOUT else "memrelay"


def install_extra(extra: str) -> str:
    """Return the words that tell how to add the packages of an extra of pyproject.toml.

    The editable installation of a checkout stays one.
    """
    if IS_CHECKOUT:
        return f"run `.venv/bin/pip install -e '.[{extra}]'` in the checkout"
    return f"run `pip install 'memrelay[{extra}]'` in the environment of Memrelay"


def sample(name: str) -> str:
    """Return the path of a bundle that Memrelay brings along, as the shell takes it."""
    return f"pipelines/{name}" if IS_CHECKOUT else str(PACKAGE / "pipelines" / name)


class KeyCommand(NamedTuple):
    """How to run `memrelay` in one kind of installation: the place, and the beginning of a line."""

    place: str
    command: str


IN_CHECKOUT = KeyCommand("in the folder of Memrelay", ".venv/bin/memrelay")
IN_CONTAINER = KeyCommand("next to compose.yaml", "docker compose exec server memrelay")
IN_CLUSTER = KeyCommand("with access to the cluster", "kubectl exec worker-0 -- memrelay")
IN_SYSTEMD = KeyCommand(
    "as root on the machine of the service",
    "MEMRELAY_MEMORY__ROOT=/var/lib/memrelay/memory MEMRELAY_BUS__DATA=/var/lib/memrelay/bus"
    " /opt/memrelay/bin/memrelay",
)
IN_ENVIRONMENT = KeyCommand("in the environment of Memrelay", "memrelay")
# The files by which an installation is known, in the order in which they decide.
SIGNS = {
    "/var/run/secrets/kubernetes.io": IN_CLUSTER,
    "/.dockerenv": IN_CONTAINER,
    "/run/.containerenv": IN_CONTAINER,
}
STATE_OF_SERVICE = Path("/var/lib/memrelay")


def list_key_commands(
    root: Path = Path("/"), folder: Path | None = None, *, is_checkout: bool = IS_CHECKOUT
) -> list[KeyCommand]:
    """Return how to run `memrelay` for this installation, and then for the others.

    `root` has the signs of containers, and `folder` is the working directory of the server.
    """
    found = IN_CHECKOUT if is_checkout else _find_installation(root, folder or Path.cwd())
    others = [IN_CONTAINER, IN_SYSTEMD, IN_CLUSTER, IN_CHECKOUT, IN_ENVIRONMENT]
    return [found, *(one for one in others if one is not found)]


def _find_installation(root: Path, folder: Path) -> KeyCommand:
    for sign, command in SIGNS.items():
        if (root / sign.removeprefix("/")).exists():
            return command
    return IN_SYSTEMD if folder == STATE_OF_SERVICE else IN_ENVIRONMENT


def missing_framework(name: str, extra: str) -> str:
    """Return why an adapter of memrelay.integrations cannot be imported, and the remedy."""
    return f"this adapter needs {name}: {install_extra(extra)}"
