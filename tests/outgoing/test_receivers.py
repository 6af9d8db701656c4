"""The receivers of docs/endpoints.md accept what is signed, and nothing else."""

import base64
import json
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from memrelay.worker.endpoints.signatures import sign
from tests.support.npm import NODE

PAGE = Path(__file__).resolve().parents[2] / "docs" / "endpoints.md"
SECRETS = ["whsec_" + base64.b64encode(bytes([at]) * 24).decode() for at in (1, 2)]
BODY = '{"type": "record.created", "data": {"content": "Grüße"}}'.encode()
# Node removes the types of a module in TypeScript.
TYPESCRIPT = ("--experimental-strip-types", "--no-warnings", "--input-type=module-typescript")
RUN_IN_NODE = """
let text = "";
process.stdin.on("data", (part) => (text += part)).on("end", () => {
  const given = JSON.parse(text);
  const body = Buffer.from(given.body, "base64");
  console.log(JSON.stringify(verify(given.secret, given.headers, body)));
});
"""


class Signed(NamedTuple):
    """A request to verify."""

    secret: str
    headers: Mapping[str, str]
    body: bytes


Verify = Callable[[Signed], bool]


def read_snippet(language: str) -> str:
    found = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (snippet,) = [text for text in found if "verify(secret" in text]
    return str(snippet)


def verify_in_python(signed: Signed) -> bool:
    names: dict[str, Any] = {}
    exec(read_snippet("python"), names)
    return bool(names["verify"](*signed))


def verify_in_typescript(signed: Signed) -> bool:
    given = signed._asdict() | {"body": base64.b64encode(signed.body).decode()}
    done = subprocess.run(
        [NODE, *TYPESCRIPT, "-e", read_snippet("typescript") + RUN_IN_NODE],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=True,
    )
    return bool(json.loads(done.stdout))


def make_signed(secrets: list[str], age_s: int = 0) -> Signed:
    headers = sign(secrets, "msg_1", int(time.time()) - age_s, BODY)
    return Signed(secrets[-1], {name.lower(): value for name, value in headers.items()}, BODY)


@pytest.mark.parametrize("verify", [verify_in_python, verify_in_typescript])
def test_the_shown_receivers_verify_deliveries(verify: Verify) -> None:
    signed = make_signed(SECRETS[:1])

    assert verify(signed)
    assert verify(make_signed(SECRETS)), "one of two secrets during a rotation"
    assert not verify(signed._replace(secret=SECRETS[1]))
    assert not verify(signed._replace(body=BODY + b" "))
    assert not verify(signed._replace(headers={**signed.headers, "webhook-id": "msg_2"}))
    assert not verify(make_signed(SECRETS[:1], age_s=3600))
