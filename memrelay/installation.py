"""How this copy of Memrelay is installed: for the commands that messages and pages name."""

from pathlib import Path

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


def missing_framework(name: str, extra: str) -> str:
    """Return why an adapter of memrelay.integrations cannot be imported, and the remedy."""
    return f"this adapter needs {name}: {install_extra(extra)}"
