"""What a route written by hand takes and answers, declared beside it: /openapi.json and /docs tell
it, with its docstring."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from memrelay.web.openapi.shapes import Entered, Settled

JSON, HTML, TEXT, FORM = (
    "application/json",
    "text/html",
    "text/plain",
    "application/x-www-form-urlencoded",
)
ANY = "*/*"
PAGED = {"limit": "how many items at most", "cursor": "the `next_cursor` of the page before"}
WAITED = {"wait": "how many seconds to wait for the end of the cascade"}
NAMED_BY = {
    "webhook-id": "the same one again has no second effect, whatever the body is",
    "Idempotency-Key": "the same",
}
KEYED = {
    "Idempotency-Key": "the same call again has no second effect, and the same answer; another call under it is refused",
    "webhook-id": "the same",
}
CONDITION = {"If-Match": "the ETag of what is to be replaced, or *"}
UNCHANGED = {
    "If-None-Match": "the ETag of what is known already: where it is that still, the answer is 304"
}
ENTERED = {
    200: "with `wait`: what came of it",
    202: "it is kept and runs",
    404: "no such pipeline, swarm or agent",
    413: "it is too long",
    422: "it cannot be a message",
    504: "not settled in time; it runs all the same",
}
GIVEN = {200: Settled, 202: Entered}  # beside ENTERED
_MARK = "memrelay_described"  # of a handler; functools.wraps hands it on
Declared = TypeVar("Declared", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Described:
    """Of one route. What any route may answer is not named here; faults are problem JSON but where
    `gives` has them."""

    answers: Mapping[int, str]  # status -> what it means
    query: Mapping[str, str] = field(default_factory=dict)  # parameter -> what it is for
    headers: Mapping[str, str] = field(
        default_factory=dict
    )  # the same of those that mean something
    body: str = ""  # what the body is; "" for none
    takes: str = JSON  # the body's type
    accepts: Any = Any  # the body's shape
    kind: str = JSON  # of what is answered when nothing is wrong
    gives: Mapping[int, Any] = field(
        default_factory=dict
    )  # status -> the shape of what is answered in JSON


def described(answers: Mapping[int, str], **more: Any) -> Callable[[Declared], Declared]:
    """Declares what the route below takes and answers, by the fields of `Described`."""

    def declare(handler: Declared) -> Declared:
        vars(handler)[_MARK] = Described(answers, **more)
        return handler

    return declare


def description_of(handler: object) -> Described | None:
    """What a handler declares; None where it declares nothing."""
    found = getattr(handler, _MARK, None)
    return found if isinstance(found, Described) else None
