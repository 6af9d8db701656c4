"""Bodies of deliveries by a template of the endpoint: a JSON value whose strings are templates."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from memrelay.blocks.request_templates import BodyTemplate
from memrelay.blocks.templates import MAX_OUTPUT, MAX_SOURCE


def check_template(template: Mapping[str, Any]) -> None:
    """Raise ValueError if a template is not one, or is too long."""
    text = orjson.dumps(template)
    if len(text) > MAX_SOURCE:
        raise ValueError(f"has {len(text)} bytes of JSON; a template has at most {MAX_SOURCE}")
    _compile(text)


def render(template: Mapping[str, Any], event: Mapping[str, Any]) -> bytes:
    """Return the body for an event {"type", "timestamp", "data"}, of at most MAX_OUTPUT bytes.

    It takes up to 0.25 s. Raises Refused and ResultTooLarge.
    """
    return _compile(orjson.dumps(template)).render(event, MAX_OUTPUT).encode()


@lru_cache(maxsize=256)
def _compile(text: bytes) -> BodyTemplate:
    return BodyTemplate(orjson.loads(text))
