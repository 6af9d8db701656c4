"""Bodies of webhooks are read as JSON, forms, text or bytes."""

import json

import pytest

from memrelay.bus.message import JSON, PLAIN
from memrelay.web.server.options import WebOptions
from memrelay.web.webhooks.body import WebhookBody, read_webhook_body

OPTIONS = WebOptions()
FORM = "application/x-www-form-urlencoded"
MULTIPART = 'multipart/form-data; boundary="xYz"'
MAIL = (
    '--xYz\r\nContent-Disposition: form-data; name="subject"\r\n\r\nGrüße\r\n'
    '--xYz\r\nContent-Disposition: form-data; name="to"\r\n\r\na@example.org\r\n'
    '--xYz\r\nContent-Disposition: form-data; name="to"\r\n\r\nb@example.org\r\n'
    '--xYz\r\nContent-Disposition: form-data; name="attachment1"; filename="a.pdf"\r\n'
    "Content-Type: application/pdf\r\n\r\n%PDF\r\n\r\n\r\n--xYz--\r\n"
).encode()


def read(raw: bytes | str, content_type: str = "", form_field: str = "") -> WebhookBody:
    given = raw.encode() if isinstance(raw, str) else raw
    return read_webhook_body(given, content_type, OPTIONS, form_field)


def test_json_is_normalized_whatever_the_content_type_says() -> None:
    sent = r'{"title": "M\u00fcller", "url": "https:\/\/x", "n": 1.0}'
    for content_type in ("application/json", "text/plain", FORM, "", "x; charset=klingon"):
        body = read(sent, content_type)
        assert (body.text, body.type) == ('{"title": "Müller", "url": "https://x", "n": 1.0}', JSON)
        assert body.raw == sent.encode()
        assert body.value == {"title": "Müller", "url": "https://x", "n": 1.0}


@pytest.mark.parametrize("text", ["/write x", "/set a=b", "hello", "a=b c", "/x=1", "{broken"])
def test_a_text_under_the_type_of_a_form_stays_text(text: str) -> None:
    body = read(text, FORM)
    assert (body.text, body.type, body.form) == (text, PLAIN, ())
    assert body.value == {"text": text}


def test_a_form_becomes_an_object() -> None:
    body = read("From=%2B49&Body=Gr%C3%BC%C3%9Fe+dich&tag=a&tag=b&none=", FORM + "; charset=utf-8")
    assert body.type == JSON
    assert body.value == {"From": "+49", "Body": "Grüße dich", "tag": ["a", "b"], "none": ""}
    assert body.form[1] == ("Body", "Grüße dich")
    assert len(body.form) == 5


def test_the_json_in_a_field_of_a_form_is_the_body() -> None:
    sent = "payload=%7B%22body%22%3A+%22M%5Cu00fcller%22%7D&x=1"
    assert read(sent, FORM, "payload").text == '{"body": "Müller"}'
    assert read("payload=broken", FORM, "payload").value == {"payload": "broken"}


@pytest.mark.parametrize("sent", ["a=%ff", "&".join(["a=1"] * 10_001)])
def test_a_form_that_cannot_be_read_is_text(sent: str) -> None:
    assert (read(sent, FORM).text, read(sent, FORM).type) == (sent, PLAIN)


def test_fields_of_a_multipart_form_are_kept_and_files_named() -> None:
    body = read(MAIL, MULTIPART)
    assert body.value == {
        "subject": "Grüße",
        "to": ["a@example.org", "b@example.org"],
        "attachment1": {"filename": "a.pdf", "type": "application/pdf", "size": 8},
    }
    assert body.form == (("subject", "Grüße"), ("to", "a@example.org"), ("to", "b@example.org"))


def test_a_field_of_mail_has_the_charset_that_the_service_names() -> None:
    part = 'Content-Disposition: form-data; name="{}"\r\n\r\n{}\r\n--xYz'
    charsets = json.dumps({"text": "iso-8859-1"})
    sent = "--xYz\r\n" + part.format("text", "Grüße") + "\r\n" + part.format("charsets", charsets)
    assert read(f"{sent}--\r\n".encode("latin-1"), MULTIPART).value["text"] == "Grüße"


@pytest.mark.parametrize("sent", [MAIL[:-20], b"--xYz\r\nno head\r\n--xYz--", b"text"])
def test_a_malformed_multipart_body_is_text(sent: bytes) -> None:
    body = read(sent, MULTIPART)
    assert (body.text, body.type) == (sent.decode().strip(), PLAIN)


@pytest.mark.parametrize("charset", ["iso-8859-1", "windows-1252", "utf-16", "utf-16le", "UTF-8"])
def test_the_charset_of_the_content_type_counts(charset: str) -> None:
    sent = '{"title": "Müller"}'.encode(charset)
    assert read(sent, f"application/json; charset={charset}").value == {"title": "Müller"}


@pytest.mark.parametrize("charset", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_counts(charset: str) -> None:
    assert read('{"title": "Müller"}'.encode(charset)).text == '{"title": "Müller"}'


@pytest.mark.parametrize(
    ("sent", "content_type"),
    [
        (b'{"a": "\xff"}', JSON),
        (b"\x89PNG\r\n", "image/png"),
        (b"\xff", "text/plain; charset=ascii"),
    ],
)
def test_other_bytes_are_kept_as_base64(sent: bytes, content_type: str) -> None:
    body = read(sent, content_type)
    assert (body.type, body.encoding) == ("application/octet-stream", "base64")
    assert body.value == {"text": body.text}


def test_json_with_many_keys_or_levels_is_kept_as_it_is() -> None:
    many = json.dumps({f"k{number}": number for number in range(13_000)})
    deep = "[" * 500 + "]" * 500
    assert (read(many).text, read(many).type) == (many, JSON)
    assert (read(deep).text, read(deep).type) == (deep, JSON)
    assert read("[" * 3000 + "]" * 3000).type == PLAIN
