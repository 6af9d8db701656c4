"""What the blocks that send HTTP requests share: their arguments, and what they do with answers."""

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from memrelay.blocks.contract import BlockArgs, Call, DeferredCall
from memrelay.blocks.json_values import read_json
from memrelay.blocks.request_templates import (
    BodyTemplate,
    SecretHeader,
    UrlTemplate,
    check_header_name,
    check_header_value,
)
from memrelay.blocks.templates import JsonTemplate
from memrelay.bus.message import Message

REFERENCES = ("env:", "file:")
EXECUTOR = "memrelay.worker.deferred_calls.http_requests:send_request"
MAX_HEADERS = 50


class RequestFault(Exception):
    """A request of an agent that publishes nothing has failed for good."""


def _check_url(url: str) -> str:
    if not url.startswith(REFERENCES):
        UrlTemplate(url)
    return url


def _check_headers(headers: dict[str, str | SecretHeader]) -> dict[str, str | SecretHeader]:
    names = [check_header_name(name).lower() for name in headers]
    if len(names) > MAX_HEADERS or len(names) != len({*names}):
        raise ValueError(f"must be at most {MAX_HEADERS} headers with different names")
    for value in headers.values():
        if isinstance(value, str):
            JsonTemplate(value)
    return headers


def _check_body(value: Any) -> Any:
    BodyTemplate(value)
    return value


Body = Annotated[Any, AfterValidator(_check_body)]


class RequestArgs(BlockArgs):
    """Where a request goes, and how often it is tried."""

    template_arguments: ClassVar[tuple[str, ...]] = ("url", "headers", "body", "form", "text")

    url: Annotated[
        str,
        AfterValidator(_check_url),
        Field(json_schema_extra={"pattern": "^([hH][tT][tT][pP][sS]?://|env:|file:)"}),
    ]
    """The URL, with tokens in its path and query like
    `https://api.example.com/issues/{{ issue.number }}`; their values are percent-encoded. Or
    `env:NAME` or `file:NAME`, where the URL is a secret."""
    headers: Annotated[dict[str, str | SecretHeader], AfterValidator(_check_headers)] = Field(
        default_factory=dict
    )
    """Headers by name: a template, or `{"secret": "env:NAME", "prefix": "Bearer "}`."""
    body: Body = None
    """The JSON to send. Each string in it is a template; one that is a single token, like
    `"{{ issue.labels }}"`, is replaced by the JSON of its value."""
    retries: Annotated[int, Field(ge=0, le=100)] = 8
    """How often a request without an answer, or with 408, 425, 429 or 5xx, is repeated; at most
    `worker.retries` times. The pauses double, or follow `Retry-After`."""
    timeout_s: Annotated[int, Field(ge=1, le=100)] = 15
    """Seconds for one attempt."""
    ordered: bool = False
    """Whether the requests of the agent wait for each other, in the order of their messages."""

    @property
    def host(self) -> str:
        """Return the host of the URL, "" if the URL is a secret."""
        return "" if self.url.startswith(REFERENCES) else UrlTemplate(self.url).host

    @property
    def sent_secrets(self) -> tuple[tuple[str, str], ...]:
        """Return the references of secrets that requests have, each with its host."""
        return tuple((reference, self.host) for reference in self._list_references())

    def _list_references(self) -> Iterator[str]:
        if self.url.startswith(REFERENCES):
            yield self.url
        for value in self.headers.values():
            if isinstance(value, SecretHeader):
                yield value.secret

    @cached_property
    def url_template(self) -> UrlTemplate | None:
        """None if the URL is a secret."""
        return None if self.url.startswith(REFERENCES) else UrlTemplate(self.url)

    @cached_property
    def header_templates(self) -> dict[str, JsonTemplate | SecretHeader]:
        return {
            name: JsonTemplate(value) if isinstance(value, str) else value
            for name, value in self.headers.items()
        }

    @cached_property
    def body_template(self) -> BodyTemplate:
        return BodyTemplate(self.body)


Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]


def make_request(call: Call, args: RequestArgs, **fields: Any) -> DeferredCall:
    """Return the request of a message. `fields` are those that only one block has.

    It is stored, so a secret in it is a reference. Raises Refused and ResultTooLarge.
    """
    value = read_json(call.message)
    template = args.url_template
    headers: dict[str, Any] = {}
    for name, header in args.header_templates.items():
        if isinstance(header, SecretHeader):
            headers[name] = {"secret": header.secret, "prefix": header.prefix}
        else:
            headers[name] = check_header_value(name, header.render(value))
    request = {
        "url": args.url if template is None else template.render(value),
        "headers": headers,
        "retries": args.retries,
        "timeout_s": args.timeout_s,
        **fields,
    }
    return DeferredCall(request, "" if args.ordered else call.next_deferred_call_id)


def take_answer(call: Call) -> Message:
    """Return the answer to a request as JSON: `status`, `headers`, and `json` or `text`; or
    `error`. Raises RequestFault for an error that nobody would see.
    """
    got = call.got
    assert got is not None
    answer = {"error": got.error} if got.error else got.value
    if "error" in answer and not call.agent.publishes:
        raise RequestFault(answer["error"])
    return call.reply_json(answer)
