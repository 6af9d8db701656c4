"""A pipeline's uid: given, or the bundle's own, or made (8 hex digits)."""

import secrets
from typing import Any

from bus.wire import PUBLIC, UID
from pipelines.report import Report
from pipelines.substitution import TOKEN

PLACE = ("pipeline_uid",)


def choose(given: str | None, bundle: dict[str, Any], report: Report) -> str:
    """The uid. A wrong one is told and another made, so that nothing else seems wrong because of
    it."""
    own = bundle.get("pipeline_uid")
    wanted = own if given is None else given
    if wanted in (None, "", TOKEN):
        return secrets.token_hex(4)
    if not isinstance(wanted, str):
        report.error(PLACE, "must be a string")
    elif wanted == PUBLIC:
        report.error(
            PLACE,
            f'the uid "{PUBLIC}" is taken by public swarms',
            "choose another, or leave it out",
        )
    elif not UID.fullmatch(wanted):
        report.error(
            PLACE, "a uid has 1 to 64 letters, digits, `_` and `-`", "leave it out to have one made"
        )
    else:
        return wanted
    return secrets.token_hex(4)
