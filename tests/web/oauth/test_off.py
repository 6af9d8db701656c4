"""OAuth is off without a public URL, or with one in clear text, and then nothing is loaded."""

import subprocess
import sys

import pytest

from memrelay.cli.web_server import serves_oauth
from memrelay.web.server.path_hints import find_path_hint


@pytest.mark.parametrize(
    ("url", "is_on"),
    [
        ("", False),
        ("http://memory.example.com", False),
        ("https://memory.example.com/relay", True),
        ("http://127.0.0.1:8765", True),
    ],
)
def test_a_public_url_that_is_safe_switches_it_on(url: str, is_on: bool) -> None:
    assert serves_oauth(url) == is_on


def test_a_server_without_it_loads_nothing_of_it() -> None:
    program = (
        "import sys, memrelay.cli.web_server\n"
        "print([name for name in sys.modules if 'oauth' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_path_that_clients_try_says_how_to_switch_it_on() -> None:
    off = find_path_hint("/register", 404, has_oauth=False)
    on = find_path_hint("/register", 404, has_oauth=True)

    assert off is not None and "web.public_url" in off.detail
    assert on is not None and "/.well-known/oauth-protected-resource/mcp/UID" in on.detail
