"""CloudEvents 1.0 over HTTP, as the official library reads them."""

import json
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pytest
from cloudevents.http import from_http

from memrelay.worker.endpoints.cloudevents import CloudEvent, Mode, to_cloudevent

EVENT = CloudEvent(
    id="msg_1",
    source="/instances/u1/memories",
    type="memrelay.record.created",
    data={"guid": "g1", "content": "Müller ☕"},
    subject="g1",
    time="2026-11-28T15:41:29.313Z",
)


@pytest.mark.parametrize("mode", ["binary", "structured"])
@pytest.mark.parametrize("data", [EVENT.data, [1, None], "text", None])
def test_the_library_reads_the_same_event(mode: Mode, data: Any) -> None:
    read = from_http(*to_cloudevent(replace(EVENT, data=data), mode))

    assert dict(read.get_attributes()) == {
        "specversion": "1.0",
        "id": EVENT.id,
        "source": EVENT.source,
        "type": EVENT.type,
        "subject": "g1",
        "time": EVENT.time,
        "datacontenttype": "application/json",
    }
    assert read.get_data() == data


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_optional_attributes_are_left_out(mode: Mode) -> None:
    read = from_http(*to_cloudevent(replace(EVENT, subject="", time=""), mode))

    assert read.get("subject") is None


def test_headers_are_ascii_and_can_be_decoded() -> None:
    odd = 'Tee "für" 100 %\r\nx: y ☕'

    headers, body = to_cloudevent(replace(EVENT, subject=odd), "binary")

    assert headers["ce-subject"].isascii()
    assert not {" ", '"', "\r", "\n"} & set(headers["ce-subject"])
    assert unquote(headers["ce-subject"]) == odd
    assert json.loads(body) == EVENT.data
