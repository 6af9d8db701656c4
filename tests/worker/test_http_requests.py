"""The blocks http_request and webhook_send on a worker: requests, answers, retries and secrets."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from standardwebhooks.webhooks import Webhook

from memrelay.guarded_http.rules import OutgoingRules, SecretBinding
from memrelay.pipelines.check import check
from memrelay.pipelines.secret_references import NO_SECRETS, SecretResolver
from tests.support.bundles import Json, make_agent, make_bundle, make_uid
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.web_service import WebService

KEY, SIGNING = "sk-4f1d77aa", "whsec_c2lnbmluZy1rZXktb2YtdGhlLXRlc3Q="
FAST = {"first_pause_s": 0.01, "longest_pause_s": 0.02}


@pytest.fixture(scope="module")
def service() -> Iterator[WebService]:
    with WebService() as service:
        yield service


@pytest.fixture(scope="module")
def system(service: WebService) -> Iterator[TestSystem]:
    with TestSystem() as system:
        folder = system.root / "secrets"
        folder.mkdir(parents=True)
        (folder / "key").write_text(KEY)
        (folder / "signing").write_text(SIGNING)
        (folder / "url").write_text(f"{service.url}/hooks/T0-secret-path")
        (folder / "elsewhere").write_text("https://elsewhere.example/hooks")
        names = ("key", "signing", "url", "elsewhere")
        bound = [[f"file:{name}", ["127.0.0.1"]] for name in names]
        system.start_worker(outgoing=service.rules | {"secrets": bound}, limits=FAST)
        yield system


@pytest.fixture
def asked(system: TestSystem, service: WebService) -> Iterator["Asked"]:
    service.received.clear()
    service.script.clear()
    service.answer_headers.clear()
    yield Asked(system, service)


class Asked:
    """A pipeline with one agent that sends requests."""

    def __init__(self, system: TestSystem, service: WebService) -> None:
        self._system, self._service, self.uid = system, service, make_uid()

    def deploy(self, block: str, *, publishes: bool = True, **args: Any) -> None:
        args = {"url": self._service.url} | args
        agent = make_agent("bot", block, args, senders="User", publishes=publishes)
        self._system.deploy(make_bundle(self.uid, agent))

    def ask(self, text: str) -> Json:
        """Send a message and return the published answer."""
        ident = self._system.client.enter(self.uid, text)

        def find() -> list[str]:
            log = self._system.client.log(self.uid)
            return [said.text for said in log if said.sender == "bot" and said.input == ident]

        answer: Json = orjson.loads(wait_for(find, f"{self.uid} answers {ident}")[0])
        return answer


def test_a_request_is_sent_and_its_answer_is_published(asked: Asked, service: WebService) -> None:
    service.script.append((201, b'{"id": 5}'))
    service.answer_headers |= {"ETag": "a", "Set-Cookie": "session=1"}
    asked.deploy(
        "http_request",
        url=f"{service.url}/issues/{{{{ number }}}}?q={{{{ title }}}}",
        method="PUT",
        headers={
            "X-Title": "{{ title }}",
            "Authorization": {"secret": "file:key", "prefix": "Bearer "},
        },
        body={"title": "{{ title }}", "labels": "{{ labels }}"},
    )

    answer = asked.ask('{"number": 7, "title": "a & b", "labels": ["x"]}')

    (got,) = service.received
    assert (got.method, got.path) == ("PUT", "/issues/7?q=a%20%26%20b")
    assert orjson.loads(got.body) == {"title": "a & b", "labels": ["x"]}
    assert got.headers["content-type"] == "application/json"
    assert (got.headers["x-title"], got.headers["authorization"]) == ("a & b", f"Bearer {KEY}")
    assert (answer["status"], answer["json"]) == (201, {"id": 5})
    assert answer["headers"]["etag"] == "a"
    assert "set-cookie" not in answer["headers"]


def test_a_failed_request_is_repeated_under_the_same_key(asked: Asked, service: WebService) -> None:
    service.script.extend([(503, b""), (429, b"")])
    asked.deploy("http_request", method="POST")

    assert asked.ask("tea")["status"] == 200
    assert len(service.received) == 3
    assert len({one.headers["idempotency-key"] for one in service.received}) == 1


def test_requests_of_a_pipeline_share_a_connection(asked: Asked, service: WebService) -> None:
    service.clients.clear()
    asked.deploy("http_request")
    asked.ask("one")
    asked.ask("two")

    assert len(service.clients) == 2
    assert len(set(service.clients)) == 1


def test_retries_end_with_an_error(asked: Asked, service: WebService) -> None:
    service.script.extend([(503, b"busy")] * 3)
    asked.deploy("http_request", retries=2)

    error = "127.0.0.1 answers 503 Service Unavailable (after 3 attempts)"
    answer = asked.ask("tea")
    assert (answer["error"], answer["text"]) == (error, "busy")
    assert len(service.received) == 3


def test_another_status_is_an_error_with_the_answer(asked: Asked, service: WebService) -> None:
    service.script.append((404, b"no such issue"))
    asked.deploy("http_request")

    answer = asked.ask("tea")

    assert (answer["error"], answer["status"]) == ("127.0.0.1 answers 404 Not Found", 404)
    assert answer["text"] == "no such issue"
    assert len(service.received) == 1


def test_an_expected_status_is_no_error_and_a_long_answer_is_cut_off(
    asked: Asked, service: WebService
) -> None:
    service.script.append((404, b"[" + b"1," * 50_000 + b"1]"))
    asked.deploy("http_request", expected_status=[200, 404])

    answer = asked.ask("tea")

    assert "error" not in answer
    assert (len(answer["text"]), answer["is_cut_off"]) == (65_536, True)


def test_an_echoed_secret_is_not_published(asked: Asked, service: WebService) -> None:
    asked.deploy(
        "http_request",
        url="file:url",
        method="POST",
        headers={"Authorization": {"secret": "file:key", "prefix": "Bearer "}},
    )
    service.script.append((200, orjson.dumps({f"k{KEY}": ["/hooks/T0-secret-path", KEY]})))
    service.answer_headers["Location"] = f"/next?key={KEY}"

    answer = asked.ask("tea")

    assert service.received[0].path == "/hooks/T0-secret-path"
    assert answer["json"] == {"k[secret]": ["[secret]", "[secret]"]}
    assert answer["headers"]["location"] == "/next?key=[secret]"


def test_a_secret_url_of_another_host_is_not_called(asked: Asked, service: WebService) -> None:
    asked.deploy("http_request", url="file:elsewhere")

    error = asked.ask("tea")["error"]

    assert "the secret file:elsewhere may not be sent to elsewhere.example" in error
    assert service.received == []


def test_an_address_that_is_not_listed_is_not_called(asked: Asked, service: WebService) -> None:
    asked.deploy("http_request", url="http://127.0.0.2:9/")

    assert "list 127.0.0.2, port 9 in `outgoing.private` for http" in asked.ask("tea")["error"]


def test_a_webhook_is_signed_and_every_attempt_has_its_id(
    asked: Asked, service: WebService
) -> None:
    service.script.append((500, b""))
    asked.deploy("webhook_send", secret="file:signing", body={"type": "note", "data": "{{ a }}"})

    assert asked.ask('{"a": {"b": 1}}')["json"] == {"ok": True}

    for one in service.received:
        assert Webhook(SIGNING).verify(one.body, one.headers) == {"type": "note", "data": {"b": 1}}
    assert len(service.received) == 2
    assert len({one.headers["webhook-id"] for one in service.received}) == 1
    assert service.received[0].headers["memrelay-hop"] == "1"


def test_a_lost_webhook_of_a_silent_agent_is_a_dead_letter(
    asked: Asked, system: TestSystem, service: WebService
) -> None:
    service.script.append((400, b"bad"))
    asked.deploy("webhook_send", publishes=False)
    system.client.enter(asked.uid, "tea")

    (letter,) = wait_for(lambda: system.dead_letters(asked.uid), "a dead letter")

    assert "127.0.0.1 answers 400 Bad Request" in letter.error


def test_a_crash_repeats_the_request_under_the_same_key(service: WebService) -> None:
    service.received.clear()
    uid = make_uid()
    agent = make_agent("bot", "http_request", {"url": service.url}, senders="User")
    bundle = make_bundle(uid, agent)
    with TestSystem() as system:
        worker = system.start_worker(bundles=[bundle], outgoing=service.rules)
        service.on_request.append(worker.kill)
        system.client.enter(uid, "tea")
        worker.await_end()
        system.start_worker(outgoing=service.rules)
        wait_for(lambda: [one for one in system.client.log(uid) if one.sender == "bot"], "answer")

    first, second = service.received
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]


@pytest.mark.parametrize(
    ("args", "secrets", "fault"),
    [
        ({"url": "env:URL"}, NO_SECRETS, "the secret env:URL may not be sent anywhere"),
        ({"headers": {"A": {"secret": "env:K"}}}, None, "may not be sent to evil.example"),
        ({"secret": "env:K"}, None, "the secret env:K may not be sent to evil.example"),
        ({"url": "https://good.example/", "secret": "env:K"}, None, ""),
    ],
)
def test_a_secret_for_another_host_is_a_fault_of_the_bundle(
    tmp_path: Any, args: Json, secrets: SecretResolver | None, fault: str
) -> None:
    bound = SecretBinding("env:K", frozenset({"good.example"}), frozenset({"one"}))
    resolver = secrets or SecretResolver(tmp_path, {}, outgoing=OutgoingRules(secrets=(bound,)))
    agent = make_agent("bot", "webhook_send", {"url": "https://evil.example/"} | args)

    checked = check(make_bundle("one", agent), secrets=resolver)
    other = check(make_bundle("two", agent), secrets=resolver)

    assert fault in " ".join(one.as_line() for one in checked.faults)
    assert bool(checked.faults) == bool(fault)
    assert other.faults


def test_the_templates_of_requests_count_as_templates_of_the_bundle() -> None:
    body = {str(at): "{{ a }}" + "b" * 1000 + str(at) for at in range(40)}
    agent = make_agent("bot", "webhook_send", {"url": "https://a.example/", "body": body})

    checked = check(make_bundle("one", agent))

    assert "characters together" in " ".join(one.as_line() for one in checked.faults)
