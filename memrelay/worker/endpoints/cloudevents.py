"""CloudEvents 1.0 over HTTP: the headers and the body of an event in both modes."""

from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

import orjson

Mode = Literal["binary", "structured"]
JSON = "application/json"
STRUCTURED = "application/cloudevents+json; charset=utf-8"
# What a header holds as it is: printable ASCII without the space, the quote and the percent sign.
IN_HEADERS = "".join(
    character for character in map(chr, range(0x21, 0x7F)) if character not in '"%'
)


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """An event. `source` and `id` name it together. `source` is a URI reference, `time` is RFC 3339
    and `data` any JSON value; "" leaves out `subject` or `time`.
    """

    id: str
    source: str
    type: str
    data: Any
    subject: str = ""
    time: str = ""


def to_cloudevent(event: CloudEvent, mode: Mode = "structured") -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of a request with the event.

    The body has the whole event in the structured mode. It has only the data in the binary mode,
    where the other attributes are headers.
    """
    attributes = {"specversion": "1.0", "id": event.id, "source": event.source, "type": event.type}
    for name, value in (("subject", event.subject), ("time", event.time)):
        if value:
            attributes[name] = value
    if mode == "binary":
        headers = {f"ce-{name}": quote(value, IN_HEADERS) for name, value in attributes.items()}
        return headers | {"content-type": JSON}, orjson.dumps(event.data)
    whole = attributes | {"datacontenttype": JSON, "data": event.data}
    return {"content-type": STRUCTURED}, orjson.dumps(whole)
