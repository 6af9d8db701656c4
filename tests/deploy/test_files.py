"""The files for containers, Kubernetes and systemd are valid."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.support.child import CHECKOUT

TOOLS = Path(sys.executable).parent
KUSTOMIZATIONS = sorted((CHECKOUT / "deploy" / "kubernetes").glob("*/kustomization.yaml"))
MANIFESTS = [
    path
    for path in sorted((CHECKOUT / "deploy" / "kubernetes").rglob("*.yaml"))
    if path.name != "kustomization.yaml"
]
UNITS = sorted((CHECKOUT / "deploy" / "systemd").glob("*.service"))
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())


def check(*command: str | Path) -> str:
    """Run a checker and return its output. Fail if it finds a fault."""
    done = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.skipif(not (TOOLS / "hadolint").exists(), reason="hadolint has no wheel here")
def test_hadolint_accepts_the_dockerfile() -> None:
    check(TOOLS / "hadolint", "Dockerfile")


COMPOSE_FILES = [CHECKOUT / "compose.yaml", CHECKOUT / "deploy" / "container" / "parts.yaml"]


@pytest.mark.parametrize("file", COMPOSE_FILES, ids=lambda file: file.stem)
def test_a_compose_file_follows_the_specification(file: Path) -> None:
    check(TOOLS / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", file)


def test_compose_has_no_default_passwords_and_takes_any_characters() -> None:
    for file in COMPOSE_FILES:
        text = file.read_text()
        passwords = re.findall(r"\$\{\w*PASSWORD\w*(..)", text)
        assert set(passwords) <= {":?"}, passwords
        for service in yaml.safe_load(text)["services"].values():
            # A command in one text is split at spaces, and a URL needs percent-encoding.
            assert "$" not in str(service.get("command", "")) or isinstance(
                service["command"], list
            )
            urls = [value for value in service.get("environment", {}).values() if "://" in value]
            assert not [url for url in urls if "$" in url]


def test_published_ports_differ_and_are_local() -> None:
    ports = [
        port
        for file in COMPOSE_FILES
        for service in yaml.safe_load(file.read_text())["services"].values()
        for port in service.get("ports", ())
    ]
    assert len(ports) == len(set(ports)) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_manifests_follow_the_kubernetes_api() -> None:
    assert MANIFESTS
    check(TOOLS / "kubernetes-validate", "--strict", *MANIFESTS)


@pytest.mark.parametrize("file", KUSTOMIZATIONS, ids=lambda file: file.parent.name)
def test_a_kustomization_lists_all_manifests_of_its_folder(file: Path) -> None:
    listed = yaml.safe_load(file.read_text())["resources"]

    local = [name for name in listed if not name.startswith("../")]
    assert sorted([*local, file.name]) == sorted(path.name for path in file.parent.iterdir())
    if shutil.which("kubectl"):
        built = check("kubectl", "kustomize", file.parent)
        assert all(document["metadata"]["name"] for document in yaml.safe_load_all(built))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for unit in UNITS:
        copy = tmp_path / unit.name
        # Only a command that exists passes the check.
        copy.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(), flags=8))
        assert "memrelay" not in check("systemd-analyze", "verify", copy)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_units_are_confined() -> None:
    for unit in UNITS:
        # The threshold is ten times the exposure.
        check("systemd-analyze", "security", "--offline=true", "--threshold=30", unit)
        assert "UMask=0077" in unit.read_text().splitlines()


def test_the_image_is_installed_from_files_that_the_build_has() -> None:
    dockerfile = (CHECKOUT / "Dockerfile").read_text()
    ignored = (CHECKOUT / ".dockerignore").read_text().splitlines()
    extras = re.findall(r"--extra[ =](\w+)", dockerfile)

    assert set(extras) <= set(PROJECT["project"]["optional-dependencies"])
    assert {"bge", "local"} <= set(extras)
    for name in ("requirements.lock", "pyproject.toml", "deploy/install.py"):
        assert f"!{name}" in ignored
