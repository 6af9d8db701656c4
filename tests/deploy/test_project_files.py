"""Files for a host of repositories are valid, and a release is checked before it is built."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.child import CHECKOUT

CHECKER = Path(sys.executable).parent / "check-jsonschema"
TEMPLATES = CHECKOUT / ".github" / "ISSUE_TEMPLATE"
WORKFLOWS = sorted((CHECKOUT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("custom.github-workflows-require-timeout", WORKFLOWS),
        ("vendor.github-issue-forms", [TEMPLATES / "bug.yml", TEMPLATES / "feature.yml"]),
        ("vendor.github-issue-config", [TEMPLATES / "config.yml"]),
    ],
)
def test_the_files_follow_the_schema(schema: str, files: list[Path]) -> None:
    done = subprocess.run(
        [CHECKER, "--builtin-schema", schema, *files], capture_output=True, text=True, timeout=120
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflow_runs_the_script_of_ci_on_each_supported_version() -> None:
    (job,) = yaml.safe_load((CHECKOUT / ".github/workflows/tests.yml").read_text())["jobs"].values()

    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert ".ci/run" in [step.get("run") for step in job["steps"]]


def test_the_hooks_are_local_and_their_tools_are_installed() -> None:
    (repository,) = yaml.safe_load((CHECKOUT / ".pre-commit-config.yaml").read_text())["repos"]
    tools = {hook["entry"].split()[0] for hook in repository["hooks"]}

    assert repository["repo"] == "local"
    assert tools == {".venv/bin/ruff", ".venv/bin/mypy"}
    assert all((Path(sys.executable).parent / Path(tool).name).exists() for tool in tools)


def build(*tag: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CHECKOUT / ".ci" / "build", *tag], capture_output=True, text=True, timeout=200
    )


def test_a_tag_of_another_version_is_refused() -> None:
    done = build("v0.0.7")

    assert done.returncode == 1
    assert "the tag v0.0.7 is not that of version" in done.stderr


@pytest.mark.slow
def test_a_release_is_built_and_starts() -> None:
    done = build()

    assert done.returncode == 0, done.stderr
    assert [name.rpartition("-")[0] for name in done.stdout.split()][-2:] == [
        "memrelay-0.1.0-py3-none",
        "memrelay",
    ]
