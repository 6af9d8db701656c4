"""Environments of clients that cannot share that of the product."""

import subprocess
import sys

import pytest

INSTALL_TIMEOUT_S = 400
# The adapter of LangChain needs version 1 of the SDK.
LANGCHAIN = ("langchain-mcp-adapters==0.3.2", "mcp==1.30.0")


@pytest.fixture(scope="session")
def langchain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of an environment with LangChain's adapter."""
    folder = tmp_path_factory.mktemp("langchain")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=INSTALL_TIMEOUT_S)
    python = str(folder / "bin/python")
    install = [python, "-m", "pip", "install", "--quiet", *LANGCHAIN]
    subprocess.run(install, check=True, timeout=INSTALL_TIMEOUT_S)
    return python
