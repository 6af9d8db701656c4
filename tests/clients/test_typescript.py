"""The TypeScript client against a real server, with node from the wheel."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from clients.generate import FILES, PACKAGE, generate, make_document
from memrelay.worker.endpoints.signatures import sign
from tests.support.npm import NODE, npm_project, run_script
from tests.support.sessions import CHECKOUT, fences
from tests.support.web_system import WebSystem

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
EVENT = {"type": "record.created", "timestamp": "2026-11-29T00:00:00Z", "data": {"guid": "g"}}


@pytest.fixture(scope="module")
def project() -> Path:
    """Return a built copy of the package."""
    home = npm_project(PACKAGE)
    run_script(home, "build")
    return home


@pytest.fixture(scope="module")
def server() -> Iterator[WebSystem]:
    with WebSystem() as server:
        yield server


def test_the_generated_files_are_those_of_the_server(tmp_path: Path) -> None:
    generate(tmp_path)
    for name in FILES:
        message = "run .venv/bin/python clients/generate.py"
        assert (tmp_path / name).read_text() == (PACKAGE / name).read_text(), message


def test_each_operation_has_the_route_of_the_document(project: Path) -> None:
    expected = {
        item["operationId"]: [method.upper(), path]
        for path, methods in make_document()["paths"].items()
        for method, item in methods.items()
    }
    program = (
        "import { findRoute } from './dist/esm/client.js';"
        "const names = JSON.parse(process.argv[1]);"
        "console.log(JSON.stringify(names.map((name) => {"
        "const { method, path } = findRoute(...name.split('.')); return [method, path]; })));"
    )
    names = orjson.dumps(list(expected)).decode()
    ended = subprocess.run(
        [NODE, "--input-type=module", "-e", program, names],
        cwd=project,
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert orjson.loads(ended.stdout) == list(expected.values())


def test_types_lint_and_packaging_have_no_fault(project: Path) -> None:
    run_script(project, "check")


def test_the_client_works_with_a_server(project: Path, server: WebSystem, tmp_path: Path) -> None:
    body = orjson.dumps(EVENT)
    headers = sign([SECRET], "msg_1", int(time.time()), body)
    signed = {"body": body.decode(), "headers": headers, "secret": SECRET}
    (tmp_path / "signed.json").write_bytes(orjson.dumps(signed))

    printed = run_script(
        project,
        "test",
        MEMRELAY_URL=server.url,
        MEMRELAY_PIPELINE=server.deploy(),
        MEMRELAY_SIGNED=str(tmp_path / "signed.json"),
    )

    assert "# fail 0" in printed


@pytest.mark.parametrize("page", ["clients/typescript/README.md", "docs/typescript.md"])
def test_the_programs_of_the_page_run(project: Path, page: str) -> None:
    programs = [text for language, text in fences(CHECKOUT / page) if language == "ts"]
    with WebSystem() as server:
        server.deploy()
        for number, text in enumerate(programs):
            program = project / f"test/page-{number}.ts"
            program.write_text(text.replace("http://127.0.0.1:8765", server.url))
            ended = subprocess.run(
                [NODE, str(program)], cwd=project, capture_output=True, text=True, timeout=60
            )
            program.unlink()
            assert ended.returncode == 0, ended.stderr
            assert ended.stdout or "export async function" in text
