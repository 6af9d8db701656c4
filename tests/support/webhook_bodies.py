"""Bodies as about 30 senders of webhooks shape them, made from a seed."""

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import urlencode

FORM = "application/x-www-form-urlencoded"
NAMES = ("Müller", "Søren", "Łukasz", "日本", "Ада", "Zoë", "O'Neil", 'Quo"te', "Back\\slash")


@dataclass(frozen=True)
class SentBody:
    """A body with the words that a search has to find. `value` is what a form means."""

    sender: str
    raw: bytes
    content_type: str = "application/json"
    value: Any = None
    words: tuple[str, ...] = ()
    encoding: str = ""  # of the transfer
    charset: str = "utf-8"


class _Maker:
    """Makes the values of one body. Each has other words."""

    def __init__(self, random: Random, number: int) -> None:
        self.random, self.number, self.words = random, number, list[str]()

    def word(self, letters: str = "abäöüßéñøżдя") -> str:
        letter = self.random.choice(letters)
        word = f"w{self.number}{letter}{len(self.words)}x"
        self.words.append(word)
        return word

    def text(self) -> str:
        return f"{self.word()} {self.random.choice(NAMES)}\n{self.word()}\r\n\t{self.word()}"

    def fields(self, count: int = 4) -> dict[str, Any]:
        number: Any = self.random.choice([0, -1, 1.5, 10**18, 2**63, True, None, []])
        return {f"field_{at}": self.text() for at in range(count)} | {"number": number}


def _github(make: _Maker) -> Any:
    return {"action": "opened", "issue": make.fields(), "sender": {"login": make.word()}}


def _stripe(make: _Maker) -> Any:
    return {"id": f"evt_{make.number}", "object": "event", "data": {"object": make.fields()}}


def _slack(make: _Maker) -> Any:
    return {"type": "event_callback", "event": {"type": "message", "text": make.text()}}


def _shopify(make: _Maker) -> Any:
    return {"id": 820982911946154508, "email": make.word(), "line_items": [make.fields()] * 2}


def _telegram(make: _Maker) -> Any:
    return {"update_id": make.number, "message": {"from": {"id": 7}, "text": make.text()}}


def _alert(make: _Maker) -> Any:
    return {"text": make.text(), "host": make.word(), "status": "firing", "alerts": []}


def _ci(make: _Maker) -> Any:
    return {"args": [make.word(), "-v"], "text": make.text(), "id": make.number}


def _heartbeat(make: _Maker) -> Any:
    return {"type": make.word(), "timestamp": make.number}


def _events(make: _Maker) -> Any:
    return [{"event": "open", "email": make.word()} for _ in range(3)]


def _nested(make: _Maker) -> Any:
    value: Any = make.word()
    for _ in range(100):
        value = {"in": [value]}
    return value


def _named(make: _Maker) -> Any:
    return {"from": {"name": make.word()}, "args": [{"name": make.text()}], "text": None}


JSON_SENDERS: dict[str, Callable[[_Maker], Any]] = {
    **{"github": _github, "stripe": _stripe, "slack": _slack, "shopify": _shopify},
    **{"telegram": _telegram, "grafana": _alert, "jenkins": _ci, "sentry": _heartbeat},
    **{"sendgrid": _events, "terraform": _nested, "zapier": _named},
}


def _make_form(make: _Maker) -> SentBody:
    fields = {"From": "+49 30", "Body": make.text(), "tag": [make.word(), make.word()], "None": ""}
    raw = urlencode(fields, doseq=True).encode()
    return SentBody("twilio", raw, FORM, fields)


def _make_mail(make: _Maker) -> SentBody:
    fields = {"subject": make.text(), "text": make.text()}
    part = '--b0\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}\r\n'
    raw = "".join(part.format(name, value) for name, value in fields.items()).encode()
    head = '--b0\r\nContent-Disposition: form-data; name="a"; filename="a.bin"\r\n\r\n'
    raw += head.encode() + b"\x00\xff\r\n--b0--\r\n"
    value = fields | {"a": {"filename": "a.bin", "type": "", "size": 2}}
    return SentBody("mail", raw, "multipart/form-data; boundary=b0", value)


def _dump(value: Any, *, is_ascii: bool = False) -> bytes:
    text = json.dumps(value, ensure_ascii=is_ascii)
    return (text.replace("/", "\\/") if is_ascii else text).encode()


def _other_forms(make: _Maker) -> list[Callable[[], SentBody]]:
    """Return the makers of bodies that are more than JSON in UTF-8."""
    fields = make.fields
    many = {f"k{at}": at for at in range(13_000)}
    utf16 = "application/json; charset=utf-16"
    latin = "text/plain; charset=iso-8859-1"
    return [
        lambda: SentBody("php", _dump({"url": "https://x/", **fields()}, is_ascii=True)),
        lambda: SentBody("java", _dump(fields(), is_ascii=True), "text/plain"),
        lambda: SentBody("pretty", json.dumps(fields(), indent=1).encode()),
        lambda: SentBody("curl", _dump(fields()), FORM),
        lambda: SentBody(
            "powershell", json.dumps(fields()).encode("utf-16"), utf16, charset="utf-16"
        ),
        lambda: SentBody("windows", b"\xef\xbb\xbf" + _dump(fields()), charset="utf-8-sig"),
        lambda: SentBody("text", make.text().encode(), "text/plain"),
        lambda: SentBody("latin", f"{make.word('äé')} ÿ".encode("latin-1"), latin),
        lambda: SentBody("vector", gzip.compress(_dump(fields())), encoding="gzip"),
        lambda: SentBody("twice", b'{"a": 1, "a": "%s", "n": 1.10}' % make.word().encode()),
        lambda: SentBody("exact", b'{"n": 1e400, "w": "%s \\ud83d"}' % make.word().encode()),
        lambda: SentBody("push", _dump(many | {"w": make.word()})),
        lambda: SentBody("broken", b'{"a": "%s", ' % make.word().encode(), "application/json"),
        lambda: SentBody("binary", b'{"a": "\xff\xfe%d"}' % make.number),
        lambda: SentBody("large", _dump([make.word(), 'quo"te ' * 125_000])),
        lambda: SentBody("empty", b""),
        lambda: _make_form(make),
        lambda: _make_mail(make),
    ]


def make_bodies(seed: int, count: int) -> Iterator[SentBody]:
    """Yield bodies of all senders in turn. A large one is rare."""
    random = Random(seed)
    for number in range(count):
        make = _Maker(random, number)
        others = _other_forms(make)
        at = number % (len(JSON_SENDERS) + len(others))
        if at < len(JSON_SENDERS):
            sender, shape = list(JSON_SENDERS.items())[at]
            body = SentBody(sender, _dump(shape(make), is_ascii=random.random() < 0.5))
        else:
            body = others[at - len(JSON_SENDERS)]()
        words = tuple(make.words)
        yield SentBody(**(vars(body) | {"words": words}))
