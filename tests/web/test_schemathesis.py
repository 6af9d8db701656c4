"""Fuzzing of all routes against the OpenAPI document; `make fuzz` sends 200 requests to each."""

from collections.abc import Iterator
from typing import Any, NamedTuple
from zlib import crc32

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import checks

from tests.support.contract import read_document
from tests.support.keys import make_key
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]
NOT_READY = "/ready"  # 503 is the answer for an unserved pipeline


class Home(NamedTuple):
    """A server with a pipeline and the headers of a key."""

    web_system: WebSystem
    uid: str
    guid: str
    headers: dict[str, str]


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with WebSystem(WEB__RATE="0") as web_system:
        uid = web_system.deploy()
        made = web_system.post(f"/v1/pipelines/{uid}/records", {"content": "tea"})
        yield Home(web_system, uid, made.json["guid"], make_key(web_system.system.root).headers)


schema = schemathesis.openapi.from_dict(read_document())


@schema.parametrize()
@settings(
    max_examples=settings.default.max_examples // 8,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_every_response_is_documented(case: Any, home: Home) -> None:
    names, there = case.path_parameters, {"uid": home.uid, "guid": home.guid, "swarm": "chat"}
    if (
        crc32(str(names).encode()) % 3 and case.method != "DELETE"
    ):  # otherwise almost all requests name unknown pipelines
        names.update({name: there[name] for name in names if name in there})

    wait_s = (case.query or {}).get("wait")
    if isinstance(wait_s, int | float) and 0 < wait_s < 1:
        case.query["wait"] = 1  # a wait that is too short for the worker ends in 504

    case.call_and_validate(
        home.web_system.url,
        headers=home.headers,
        checks=CHECKS[case.path == NOT_READY :],
        timeout=30,
    )

    assert home.web_system.web.lives
