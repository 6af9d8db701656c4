"""The conformance program, the TypeScript SDK and the AI SDK, all from npm, connect by OAuth."""

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from tests.support.npm import NODE, npm_command, npm_environment, npm_packages
from tests.support.oauth import OAuthClient, OAuthSystem, read_redirect
from tests.support.replicated_bus import free_port

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[2] / "mcp/clients/oauth.mjs"
SCOPES = ("search", "read", "write")


def test_the_conformance_program_passes(oauth: OAuthSystem, tmp_path: Path) -> None:
    port = free_port()
    client = OAuthClient(
        oauth.url, oauth.resource(), redirect_uri=f"http://127.0.0.1:{port}/callback"
    )
    client.register()
    with start(
        [
            *npm_command("conformance"),
            "authorization",
            *("--url", oauth.url),
            *("--client-id", client.client_id),
            *("--resource", client.resource),
            *("--port", str(port)),
            *("--output-dir", str(tmp_path)),
        ],
        tmp_path,
    ) as program:
        assert program.stdout is not None
        query = next(
            urlsplit(line.strip()).query for line in program.stdout if "/authorize?" in line
        )
        location = oauth.user.decide(query).headers["location"]
        assert location.startswith(client.redirect_uri)
        urlopen(location, timeout=60).close()
        printed = program.stdout.read()
        assert program.wait(timeout=60) == 0, printed

    checks = [
        check for path in tmp_path.glob("*/checks.json") for check in json.loads(path.read_text())
    ]
    assert {check["id"] for check in checks} == {
        "authorization-server-metadata",
        "authorization-server-metadata-cimd",
        "authorization-code-grant",
    }, printed
    assert {check["status"] for check in checks} == {"SUCCESS"}, checks


@pytest.mark.parametrize("kind", ["sdk", "ai"])
@pytest.mark.parametrize("way", ["document", "registration"])
def test_a_client_in_typescript_connects(
    oauth: OAuthSystem, tmp_path: Path, kind: str, way: str
) -> None:
    uris = ["http://127.0.0.1/callback"]
    document = oauth.client(redirect_uris=uris).client_id if way == "document" else ""
    with start([NODE, str(SCRIPT), kind, oauth.resource(), document], tmp_path) as program:
        assert program.stdin is not None and program.stdout is not None
        printed = []
        for line in program.stdout:
            printed.append(json.loads(line))
            if "asked" in printed[-1]:
                query = urlsplit(printed[-1]["asked"]).query
                asked = re.findall("search|read|write", query)
                scopes = [one for one in SCOPES if one in asked]
                answer = read_redirect(oauth.user.decide(query, scopes=scopes))
                program.stdin.write(json.dumps(answer) + "\n")
                program.stdin.flush()
        assert program.wait(timeout=60) == 0

    result = printed[-1]
    assert (result["client"] == document) is (way == "document")
    assert "Ben likes coffee" in result["first"] + result["second"]
    assert result["scope"] == ("read search write" if kind == "sdk" else "search write")
    assert len(printed) == (3 if kind == "sdk" else 2)


def start(command: Sequence[str], folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command,
        cwd=folder,
        env=npm_environment() | {"NPM_PACKAGES": str(npm_packages())},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
