"""What the distributions of the package have, and how messages tell people to add an extra."""

import re
import shutil
import subprocess
import sys
import tarfile
from email import message_from_string
from pathlib import Path

import pytest

from memrelay.installation import install_extra
from tests.support.child import CHECKOUT

LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", "results", "build")
BUILD = "import setuptools.build_meta as backend, sys; print(backend.build_sdist(sys.argv[1]))"


@pytest.mark.slow
def test_the_source_distribution_has_the_documents_and_no_tests(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for path in CHECKOUT.iterdir():
        if path.is_dir() and path.name in ("memrelay", "docs", "tests", "deploy", "examples"):
            shutil.copytree(path, source / path.name, ignore=LEFT_OUT)
        elif path.is_file():
            shutil.copy(path, source)
    subprocess.run(
        [sys.executable, "-c", BUILD, str(tmp_path)], cwd=source, check=True, capture_output=True
    )
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
        (information,) = [one for one in opened.getnames() if one.count("/") == 1 and "PKG" in one]
        text = opened.extractfile(information)
        assert text is not None
        metadata = message_from_string(text.read().decode())

    assert {"docs/operations.md", "README.md", "CHANGELOG.md", "deploy/install.py"} <= names
    assert "memrelay/web/console/static/console.css" in names
    assert not [name for name in names if name.startswith("tests")]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["Keywords"] and metadata.get_all("Classifier")


def test_messages_name_a_command_of_this_installation() -> None:
    assert install_extra("agents") == "run `.venv/bin/pip install -e '.[agents]'` in the checkout"


def test_no_text_replaces_the_editable_installation_or_names_pypi() -> None:
    """`pip install ".[...]"` in .venv would replace the link to the checkout by a copy."""
    wrong = re.compile(r"""\.venv/bin/pip install ['"]?\.|install memrelay\[""")
    texts = [*CHECKOUT.glob("docs/**/*.md"), *CHECKOUT.glob("examples/**/*.md")]
    texts += [CHECKOUT / "README.md", *CHECKOUT.glob("memrelay/**/*.py")]

    found = [str(path) for path in texts if wrong.search(path.read_text())]

    # A wheel of custom blocks, which is no editable installation of Memrelay.
    assert found == [str(CHECKOUT / "docs" / "blocks.md")]
