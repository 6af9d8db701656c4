"""The shape of a policy, in operations and in bundles: what it matches, and what it does."""

import re
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, Field, ValidationError, WithJsonSchema

from memrelay.memory.engine.models import load
from memrelay.memory.records.filters import Filter, parse_filter
from memrelay.memory.validation import Faults, find_closest

Json = dict[str, Any]
# In one bundle entry, and in one store besides those.
MOST_POLICIES = 100
KEYS = ("name", "match", "action", "internal")
MATCH_KEYS = ("filter", "find", "origin")
ORIGIN_KEYS = ("verified", "by", "profile")
# The possible causes of a write.
ORIGINS = ("key", "jwt", "webhook", "agent", "block")
# Actions without a value, and those with one.
PLAIN_ACTIONS = ("redact", "refuse", "review", "drop")
VALUE_ACTIONS = ("tag", "ttl_s", "limit")
NAME = re.compile(r"[^\x00-\x1f\x7f]{1,100}")
TAG = re.compile(r"[^\x00-\x1f\x7f,]{1,100}")
RATE = re.compile(r"([1-9][0-9]{0,6})/([1-9][0-9]{0,6})s")
MAX_TTL_S = 100 * 366 * 86_400
ACTION_RULE = (
    'an action is "redact", "refuse", "review", "drop", {"tag": "name"}, {"ttl_s": seconds} or '
    '{"limit": "100/60s"}'
)
FIND_RULE = (
    'find is a named set such as "secrets", a list of them, or {"pattern": "an RE2 pattern"}'
)
# Compiles what a policy finds. It is loaded with the first policy.
COMPILE_FIND = "memrelay.memory.models.policies.patterns:compile_find"


def check_policy(value: Json) -> Json:
    """Return a policy that is valid. Raises ValidationError with every error by place."""
    faults = Faults()
    faults.add_unknown_keys(value, KEYS, ())
    name = value.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name) or name != name.strip():
        rule = "a policy needs a name of 1 to 100 characters on one line, without outer spaces"
        faults.add(("name",), rule, None)
    if "internal" in value and not isinstance(value["internal"], bool):
        faults.add(("internal",), "must be true or false", None)
    match = value.get("match", {})
    if isinstance(match, dict):
        _check_match(match, faults)
    else:
        rule = "match is an object with filter, find and origin; {} is every write"
        faults.add(("match",), rule, None)
        match = {}
    _check_action(value.get("action"), match, faults)
    faults.raise_any("policy")
    return value


def _check_match(match: Json, faults: Faults) -> None:
    faults.add_unknown_keys(match, MATCH_KEYS, ("match",))
    if "filter" in match:
        try:
            parse_filter(match["filter"])
        except ValidationError as error:
            faults.add_all(error, ("match", "filter"))
    if "find" in match:
        _check_find(match["find"], faults)
    if "origin" in match:
        _check_origin(match["origin"], faults)


def _check_find(find: Any, faults: Faults) -> None:
    is_pattern = isinstance(find, dict) and list(find) == ["pattern"]
    is_pattern = is_pattern and isinstance(find["pattern"], str)
    names = find if isinstance(find, list) else [find]
    if not is_pattern and not (names and all(isinstance(one, str) for one in names)):
        faults.add(("match", "find"), FIND_RULE, None)
        return
    try:
        load(COMPILE_FIND)(find)
    except ValueError as error:
        faults.add(("match", "find"), str(error), None)


def _check_origin(origin: Any, faults: Faults) -> None:
    place = ("match", "origin")
    if not isinstance(origin, dict):
        faults.add(place, "origin is an object with verified, by and profile", None)
        return
    faults.add_unknown_keys(origin, ORIGIN_KEYS, place)
    if not isinstance(origin.get("verified", True), bool):
        faults.add((*place, "verified"), "must be true or false", None)
    by = origin.get("by", ["key"])
    if not isinstance(by, list) or not by or not all(one in ORIGINS for one in by):
        faults.add((*place, "by"), f"by is a list of any of {', '.join(ORIGINS)}", None)
    profile = origin.get("profile", "x")
    if not isinstance(profile, str) or not 1 <= len(profile) <= 100:
        faults.add((*place, "profile"), "profile is the name of a sender of webhooks", None)


def _check_action(action: Any, match: Json, faults: Faults) -> None:
    if isinstance(action, str):
        if action not in PLAIN_ACTIONS:
            near = find_closest(action, (*PLAIN_ACTIONS, *VALUE_ACTIONS))
            hint = f" (did you mean {near!r}?)" if near else ""
            faults.add(("action",), ACTION_RULE + hint, None)
        elif action == "redact" and "find" not in match:
            rule = "redact replaces what `find` matches; add match.find, or choose another action"
            faults.add(("action",), rule, None)
        return
    name = next(iter(action), "") if isinstance(action, dict) and len(action) == 1 else ""
    if name not in VALUE_ACTIONS:
        faults.add(("action",), ACTION_RULE, None)
        return
    rule = _find_value_fault(name, action[name])
    if rule:
        faults.add(("action", name), rule, None)


def _find_value_fault(name: str, value: Any) -> str:
    """Return why the value of an action is invalid, "" if it is valid."""
    if name == "tag":
        is_text = isinstance(value, str) and value == value.strip() and TAG.fullmatch(value)
        return "" if is_text else "a tag has 1 to 100 characters on one line, without a comma"
    if name == "ttl_s":
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_valid = is_number and 1 <= value <= MAX_TTL_S
        return "" if is_valid else f"ttl_s is a number of seconds from 1 to {MAX_TTL_S}"
    is_rate = isinstance(value, str) and RATE.fullmatch(value)
    return "" if is_rate else "limit is writes per seconds and source, like 100/60s"


def parse_rate(text: str) -> tuple[int, int]:
    """Return the writes and the ms of a valid limit, such as 100/60s."""
    match = RATE.fullmatch(text)
    assert match is not None
    return int(match[1]), int(match[2]) * 1000


_FILTER_SCHEMA = next(one for one in get_args(Filter) if isinstance(one, WithJsonSchema))
_NAMES: Json = {"type": "string", "minLength": 1}
_SCHEMA: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "action"],
    "properties": {
        "name": {
            "type": "string",
            "minLength": 1,
            "maxLength": 100,
            "description": "The name of the policy, which the writer of a refused record gets.",
        },
        "match": {
            "type": "object",
            "additionalProperties": False,
            "description": "What it applies to: all parts must hold; {} is every write.",
            "properties": {
                "filter": _FILTER_SCHEMA.json_schema,
                "find": {
                    "description": "A set of patterns, a list of sets, or an RE2 pattern.",
                    "anyOf": [
                        _NAMES,
                        {"type": "array", "items": _NAMES, "minItems": 1},
                        {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["pattern"],
                            "properties": {"pattern": _NAMES},
                        },
                    ],
                },
                "origin": {
                    "type": "object",
                    "additionalProperties": False,
                    "description": "Who caused the write.",
                    "properties": {
                        "verified": {"type": "boolean"},
                        "by": {"type": "array", "items": {"enum": list(ORIGINS)}, "minItems": 1},
                        "profile": {"type": "string", "minLength": 1, "maxLength": 100},
                    },
                },
            },
        },
        "action": {
            "description": "What it does.",
            "anyOf": [
                {"enum": list(PLAIN_ACTIONS)},
                *(
                    {
                        "type": "object",
                        "additionalProperties": False,
                        "required": [name],
                        "properties": {name: schema},
                    }
                    for name, schema in {
                        "tag": {"type": "string", "minLength": 1, "maxLength": 100},
                        "ttl_s": {"type": "number", "minimum": 1, "maximum": MAX_TTL_S},
                        "limit": {"type": "string", "pattern": f"^{RATE.pattern}$"},
                    }.items()
                ),
            ],
        },
        "internal": {
            "type": "boolean",
            "description": "Look at internal and encrypted values too.",
        },
    },
}
Policy = Annotated[Json, AfterValidator(check_policy), WithJsonSchema(_SCHEMA)]
Policies = Annotated[tuple[Policy, ...], Field(max_length=MOST_POLICIES)]
