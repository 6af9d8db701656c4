"""The steps of the Dockerfile, in a folder in place of the image's root file system.

There is no container engine here. The user of the image and the cache mounts are not tested.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.child import CHECKOUT

INSTRUCTION = re.compile(r"^(COPY|RUN|FROM) (.*?)$(?<!\\)", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"--(?:from|mount)=\S+\s+")


def copy_context(names: list[str], target: Path) -> None:
    """Copy files of the build context, which has what .dockerignore leaves."""
    allowed = [
        line[1:]
        for line in (CHECKOUT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    for name in allowed if names == ["."] else names:
        assert any(name == one or name.startswith(f"{one}/") for one in allowed), name
        source = CHECKOUT / name
        into = target / (name if names == ["."] else source.name)
        into.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, into, dirs_exist_ok=True, ignore=ignore)
        else:
            shutil.copy(source, into)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_build_steps_of_the_image_make_a_program_that_works(tmp_path: Path) -> None:
    text = re.sub(r"^#.*\n", "", (CHECKOUT / "Dockerfile").read_text(), flags=re.MULTILINE)
    build, image = re.split(r"^FROM .*\n", text, flags=re.MULTILINE)[1:]
    source, root = tmp_path / "src", tmp_path / "root"
    source.mkdir()
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": os.environ.get("HOME", "/"),
        "EMBEDDER": "none",
        "UV_LINK_MODE": "copy",
    }
    for instruction, words in INSTRUCTION.findall(build):
        words = OPTION.sub("", words)
        if instruction == "COPY":
            *names, folder = words.split()
            copy_context(names, source / folder)
        else:
            command = words.replace("\\\n", " ").replace("/opt/", f"{root}/opt/")
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", command],
                env=environment,
                cwd=source,
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr
    assert "COPY --from=build /opt/memrelay /opt/memrelay" in image

    folder = tmp_path / "data"
    ended = subprocess.run(
        [
            source / "deploy/container/entrypoint.sh",
            "deploy",
            "memrelay/pipelines/memory_test.json",
        ],
        env=environment
        | {"PATH": f"{root}/opt/memrelay/bin:/usr/bin:/bin", "MEMRELAY_MEMORY__ROOT": str(folder)},
        cwd=source,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert (folder / "system.db").exists()
