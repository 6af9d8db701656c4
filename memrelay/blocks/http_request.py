"""http_request: send an HTTP request, and publish the answer."""

from functools import cached_property
from typing import Annotated, Any, Self
from urllib.parse import urlencode

from pydantic import AfterValidator, Field, model_validator

from memrelay.blocks.contract import Call, DeferredCall
from memrelay.blocks.json_values import read_json
from memrelay.blocks.registry import block
from memrelay.blocks.request_args import EXECUTOR, Method, RequestArgs, make_request, take_answer
from memrelay.blocks.templates import JsonTemplate
from memrelay.bus.message import JSON, Message

FORM, TEXT = "application/x-www-form-urlencoded", "text/plain; charset=utf-8"
Status = Annotated[int, Field(ge=100, le=599)]


def _check_template(source: str) -> str:
    JsonTemplate(source)
    return source


Template = Annotated[
    str, AfterValidator(_check_template), Field(json_schema_extra={"format": "template"})
]


class HttpRequestArgs(RequestArgs):
    """The request, and the answers that it expects."""

    method: Method = "GET"
    """The method."""
    form: dict[str, Template] | None = None
    """The fields of a form to send instead of `body`, each a template."""
    text: Template | None = None
    """A template of a plain text to send instead of `body`."""
    expected_status: tuple[Status, ...] = ()
    """The statuses that are no error; by default 200 to 299."""

    @model_validator(mode="after")
    def _has_one_body(self) -> Self:
        if sum(one is not None for one in (self.body, self.form, self.text)) > 1:
            raise ValueError("body, form and text exclude each other: keep one of them")
        return self

    @cached_property
    def form_templates(self) -> dict[str, JsonTemplate]:
        return {name: JsonTemplate(source) for name, source in (self.form or {}).items()}

    @cached_property
    def text_template(self) -> JsonTemplate:
        return JsonTemplate(self.text or "")


@block("http_request", HttpRequestArgs, deferred_call=EXECUTOR)
def http_request(call: Call, args: HttpRequestArgs) -> Message | DeferredCall:
    """Return the answer as JSON: `status`, `headers`, and `json` or `text` (up to 64 KiB). Another
    status than the expected ones adds `error`. A repeated request has the same `Idempotency-Key`.
    """
    if call.got is not None:
        return take_answer(call)
    content, kind = _make_body(call, args)
    return make_request(
        call,
        args,
        method=args.method,
        content=content,
        type=kind,
        expected=list(args.expected_status),
    )


def _make_body(call: Call, args: HttpRequestArgs) -> tuple[str | None, str]:
    value: Any = read_json(call.message)
    if args.body is not None:
        return args.body_template.render(value, call.limits.message_bytes), JSON
    if args.form is not None:
        fields = {name: one.render(value) for name, one in args.form_templates.items()}
        return urlencode(fields, errors="replace"), FORM
    if args.text is not None:
        return args.text_template.render(value), TEXT
    return None, ""
