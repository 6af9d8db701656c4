"""Reads the body of a webhook: JSON, a form, text in any charset, or other bytes."""

import codecs
import json
import re
from base64 import b64encode
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, unquote

import orjson
from msgspec import Struct

from memrelay.bus.message import JSON, PLAIN
from memrelay.pipelines.expressions import normalize_json, parse_json_text
from memrelay.web.server.options import WebOptions

BYTES, BASE64 = "application/octet-stream", "base64"
URLENCODED, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
# Longer marks first: that of UTF-32 begins with that of UTF-16.
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
MARKED = {mark[:1] for mark, _ in MARKS}
# Python also has codecs that are no charsets, or take quadratic time.
CHARSET = re.compile(
    r"utf-?8|utf-?(?:16|32)(?:-?[lb]e)?|us-?ascii|iso-?8859-?\d{1,2}|latin-?1|(?:windows|cp)-?125\d"
    r"|koi8-?[ru]|shift[-_]?jis|sjis|euc-?(?:jp|kr)|iso-?2022-?jp|gbk|gb2312|gb18030|big5|tis-?620"
)
PARAMETER = re.compile(r';\s*(charset|boundary)\s*=\s*(?:"([^"]*)"|([^\s;"]+))', re.IGNORECASE)
# `curl --data` sends JSON and commands under the type of a form. They have white space or quotes.
FORM = re.compile(r'[^\s"<>{}&=/][^\s"<>{}&=]*+=[^\s"<>{}]*+')
PART_NAME = re.compile(r';\s*(name|filename)(\*?)\s*=\s*(?:"([^"]*)"|([^\s;"]+))', re.IGNORECASE)
PART_HEADER_BYTES = 4_096


class WebhookBody(Struct, frozen=True, dict=True):
    """A body as received. A struct for speed.

    `raw` is what a signature covers. `text` is normalized JSON, a form as a JSON object, text, or
    base64 if `encoding` is "base64"; `type` is its media type. `form` are the fields of a form as
    sent, in order.
    """

    raw: bytes
    text: str
    type: str = PLAIN
    encoding: str = ""
    form: tuple[tuple[str, str], ...] = ()

    @cached_property
    def value(self) -> Any:
        """Return the JSON value; {"text": text} if the body is not JSON."""
        return parse_json_text(self.text) if self.type == JSON else {"text": self.text}


def read_webhook_body(
    raw: bytes, content_type: str, limits: WebOptions, form_field: str = ""
) -> WebhookBody:
    """Read a body of any kind. No body is refused.

    A form that has the field `form_field` is the JSON in it. A form with more than
    `limits.json_keys` fields is text.
    """
    media_type, _, parameters = content_type.partition(";")
    media_type = media_type.strip().lower()
    if media_type == MULTIPART:
        named = _find_parameter(f";{parameters}", "boundary")
        body = _read_multipart(raw, named, limits.json_keys) if named else None
        if body is not None:
            return body
    text = _decode(raw, _find_parameter(f";{parameters}", "charset") if parameters else "")
    if text is None:
        return WebhookBody(raw, b64encode(raw).decode(), BYTES, BASE64)
    text = text.strip()
    if media_type == URLENCODED and FORM.fullmatch(text):
        body = _read_form(raw, text, limits.json_keys, form_field)
        if body is not None:
            return body
    normalized = normalize_json(text)
    return WebhookBody(raw, text) if normalized is None else WebhookBody(raw, normalized, JSON)


def _find_parameter(content_type: str, name: str) -> str:
    for given, quoted, plain in PARAMETER.findall(content_type):
        if given.lower() == name:
            return str(quoted or plain)
    return ""


def _decode(raw: bytes, charset: str) -> str | None:
    """Return the text of a body, None if its bytes are not text in its charset."""
    if raw[:1] in MARKED:
        for mark, name in MARKS:
            if raw.startswith(mark):
                return _decode_as(name, raw[len(mark) :])
    is_known = bool(charset) and CHARSET.fullmatch(charset.lower()) is not None
    return _decode_as(charset if is_known else "utf-8", raw)


def _decode_as(charset: str, raw: bytes) -> str | None:
    try:
        return raw.decode(charset)
    except (UnicodeDecodeError, LookupError):
        return None


def _read_form(raw: bytes, text: str, most: int, form_field: str) -> WebhookBody | None:
    """Return the fields of a form, None if they are too many or no text."""
    try:
        form = tuple(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=most))
    except ValueError:
        return None
    if form_field and (given := dict(form).get(form_field)) is not None:
        normalized = normalize_json(given)
        if normalized is not None:
            return WebhookBody(raw, normalized, JSON, form=form)
    return WebhookBody(raw, _dump(_group(form)), JSON, form=form)


def _group(fields: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Return the fields as an object. A repeated field is a list."""
    grouped: dict[str, list[Any]] = {}
    for name, value in fields:
        grouped.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in grouped.items()}


def _dump(value: Any) -> str:
    return orjson.dumps(value).decode()


@dataclass(frozen=True, slots=True)
class _FormPart:
    """A part of a multipart body. A file has a `filename`; its content is not kept."""

    name: str
    filename: str | None
    media_type: str
    charset: str
    content: bytes


def _read_multipart(raw: bytes, boundary: str, most: int) -> WebhookBody | None:
    """Return the fields of a multipart body, None if it is malformed or has too many parts."""
    line = b"--" + boundary.encode(errors="replace")
    pieces = (b"\r\n" + raw).split(b"\r\n" + line, most + 2)
    if len(pieces) < 3 or not pieces[-1].startswith(b"--"):
        return None
    parts = [_read_part(piece) for piece in pieces[1:-1]]
    charsets = _find_charsets(parts)
    fields: list[tuple[str, Any]] = []
    for part in parts:
        if part is None:
            return None
        fields.append((part.name, _read_value(part, charsets.get(part.name))))
    grouped = _dump(_group(tuple(fields)))
    form = tuple((name, value) for name, value in fields if isinstance(value, str))
    return WebhookBody(raw, grouped, JSON, form=form)


def _read_part(piece: bytes) -> _FormPart | None:
    """Return a part, None without a name. `piece` is what follows the boundary's line."""
    head, separator, content = piece.partition(b"\r\n\r\n")
    if not separator or len(head) > PART_HEADER_BYTES:
        return None
    headers = {}
    for line in head.decode(errors="replace").split("\r\n"):
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    names = {}
    for name, star, quoted, plain in PART_NAME.findall(headers.get("content-disposition", "")):
        value = quoted or plain
        # RFC 5987: charset'language'percent-encoded
        names[name.lower()] = unquote(value.rpartition("'")[2]) if star else value
    if "name" not in names:
        return None
    content_type = headers.get("content-type", "")
    media_type = content_type.partition(";")[0].strip()
    charset = _find_parameter(content_type, "charset")
    return _FormPart(names["name"], names.get("filename"), media_type, charset, content)


def _find_charsets(parts: list[_FormPart | None]) -> dict[str, str]:
    """Return the charsets that mail services name in the field `charsets`, by field."""
    for part in parts:
        if part is not None and part.name == "charsets":
            try:
                named = json.loads(part.content[:PART_HEADER_BYTES])
            except (ValueError, RecursionError):
                return {}
            texts = named.items() if isinstance(named, dict) else ()
            return {name: charset for name, charset in texts if isinstance(charset, str)}
    return {}


def _read_value(part: _FormPart, charset: str | None) -> Any:
    """Return the text of a field, the name and size of a file, or other bytes as base64."""
    if part.filename is not None:
        size = len(part.content)
        return {"filename": part.filename, "type": part.media_type, "size": size}
    text = _decode(part.content, part.charset or charset or "")
    if text is not None:
        return text
    return {"encoding": BASE64, "text": b64encode(part.content).decode()}
