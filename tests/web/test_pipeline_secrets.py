"""PUT /v1/pipelines/UID/secrets/NAME: stored for a pipeline, and never shown."""

from pathlib import Path
from typing import Any

import pytest

from memrelay.pipelines.secret_references import SecretResolver
from tests.support.bundles import STORE, make_agent, make_bundle, make_uid
from tests.support.http import Answer, ask
from tests.support.keys import ApiKey, make_key
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem


def put(web_system: WebSystem, uid: str, name: str, **body: Any) -> Answer:
    return ask(web_system.url, "PUT", f"/v1/pipelines/{uid}/secrets/{name}", body)


def test_a_made_secret_admits_the_webhooks_of_its_pipeline(web_system: WebSystem) -> None:
    uid = make_uid()

    stored = put(web_system, uid, "hook").json

    assert stored["reference"] == f"file:{uid}/hook" and len(stored["value"]) >= 40
    file = Path(web_system.system.root) / "secrets" / uid / "hook"
    assert file.stat().st_mode & 0o777 == 0o600
    agent = make_agent("hook", "memory_write", {"memory_id": STORE})
    web_system.system.deploy(make_bundle(uid, agent | {"wf_webhook_token": stored["reference"]}))

    def send(token: str) -> int:
        return web_system.webhook(uid, "hook_", "tea", Authorization=f"Bearer {token}").status

    assert send(stored["value"]) == 202 and send("other") == 401


def test_a_secret_is_replaced_only_on_request(web_system: WebSystem) -> None:
    uid = make_uid()
    assert put(web_system, uid, "slack", value="first").json == {"reference": f"file:{uid}/slack"}

    again = put(web_system, uid, "slack", value="second")
    forced = put(web_system, uid, "slack", value="second", replace=True)

    assert again.status == 409 and "replace" in again.problem[1]
    assert forced.status == 200
    file = Path(web_system.system.root) / "secrets" / uid / "slack"
    assert file.read_text() == "second" and len(list(file.parent.iterdir())) == 1


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("a.b/x", {}, "the uid must have"),
        ("{uid}/.hidden", {}, "the name must begin"),
        ("{uid}/..%2Fx", {}, "the name must begin"),
        ("{uid}/" + "x" * 65, {}, "the name must begin"),
        ("{uid}/x", {"value": "two\nlines"}, "single line"),
        ("{uid}/x", {"value": "x" * 70_000}, "65536 bytes"),
        ("{uid}/x", {"value": 1}, "value"),
        ("{uid}/x", {"values": "x"}, "values"),
        ("{uid}/x", {"form": "other"}, "form"),
    ],
)
def test_invalid_secrets_are_refused(
    web_system: WebSystem, path: str, body: dict[str, Any], words: str
) -> None:
    uid, _, name = path.format(uid=make_uid()).partition("/")

    answer = put(web_system, uid, name, **body)

    assert answer.status == 422 and words in answer.problem[1]


def test_a_secret_is_written_only_below_its_folder(tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "secrets"
    elsewhere.mkdir()
    folder.mkdir()
    (folder / "linked").symlink_to(elsewhere)
    resolver = SecretResolver(folder, {})

    for name in ("../x", "linked/x", "/etc/x"):
        with pytest.raises(ValueError, match="outside"):
            resolver.write(name, "tea")
    resolver.write("shop/x", "tea")

    assert resolver.read("file:shop/x") == "tea" and list(elsewhere.iterdir()) == []


def test_only_an_admin_of_the_pipeline_stores_its_secrets(keyed: WebSystem) -> None:
    uid = make_uid()
    root = keyed.system.root
    deployer = make_key(root, "deploy", pipelines=(uid,))
    admin = make_key(root, "admin", pipelines=(uid,))

    def store(key: ApiKey, of: str) -> int:
        path, bearer = f"/v1/pipelines/{of}/secrets/x", f"Bearer {key.text}"
        return ask(keyed.url, "PUT", path, {"replace": True}, {"Authorization": bearer}).status

    wait_for(lambda: store(admin, uid) == 200, "the key is known")
    assert store(deployer, uid) == 403
    assert store(admin, make_uid()) == 404
