"""Compiled policies, and what they decide about a record that is going to be written."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import orjson

from memrelay.memory.engine.features import DeferredRecord
from memrelay.memory.engine.models import internal_kinds, json_kinds
from memrelay.memory.engine.origins import Origin
from memrelay.memory.engine.records import make_state
from memrelay.memory.engine.versions import State
from memrelay.memory.models.policies.conditions import (
    Comes,
    Holds,
    compile_filter,
    compile_origin,
    list_fields,
)
from memrelay.memory.models.policies.patterns import Finder, Match, compile_find, redact
from memrelay.memory.policy_rules import parse_rate
from memrelay.memory.records.admission import find_strings, replace_strings
from memrelay.memory.seal_keys import is_sealed

Action = Literal["redact", "refuse", "review", "drop", "tag", "ttl_s", "limit"]
StopAction = Literal["refuse", "drop", "review"]
# The strictest first.
STOPS: tuple[StopAction, ...] = ("refuse", "drop", "review")
REDACT: Action = "redact"
# The matches of a rule, by text.
Found = Mapping[str, list[Match]]
NO_ORIGIN = Origin("")
# Fields in which plain new records that are written alike differ.
OWN_FIELDS = frozenset({"guid", "content", "created_at", "updated_at"})
# Ids that are made for records. An import may bring others.
MADE_GUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# Fields that an append leaves as they are.
KEPT = ("scope", "kind", "source", "tags", "key", "owner", "data", "in_context", "encrypted")


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled policy. `value` is the tag, the seconds, or (writes, ms) of a limit. `find` is
    what the policy finds, None for any text.
    """

    name: str
    action: Action
    value: Any
    holds: Holds | None
    comes: Comes | None
    find: Any
    finder: Finder | None
    # Whether it looks at internal and encrypted values.
    is_internal: bool
    # The fields that its filter compares.
    fields: frozenset[str]


@lru_cache(maxsize=1024)
def compile_policy(text: str) -> Rule:
    """Return the rule of a valid policy, given as JSON."""
    policy = orjson.loads(text)
    match, action = policy.get("match", {}), policy["action"]
    value: Any = None
    if isinstance(action, dict):
        ((action, value),) = action.items()
    if action == "limit":
        value = parse_rate(value)
    return Rule(
        policy["name"],
        action,
        value,
        compile_filter(match["filter"]) if match.get("filter") else None,
        compile_origin(match["origin"]) if match.get("origin") else None,
        match.get("find"),
        compile_find(match["find"]) if "find" in match else None,
        policy.get("internal", False),
        frozenset(list_fields(match["filter"]) if match.get("filter") else ()),
    )


class RuleSet:
    """The policies of a store, in their order."""

    def __init__(self, policies: Iterable[str]) -> None:
        self.rules = tuple(compile_policy(text) for text in policies)
        without_find = [rule for rule in self.rules if rule.finder is None]
        self.limits = tuple(rule for rule in without_find if rule.action == "limit")
        # The conditions of the others that need no text.
        self._plain = tuple(
            (rule.holds, rule.comes) for rule in without_find if rule.action != "limit"
        )
        finding = [rule for rule in self.rules if rule.finder is not None]
        self._is_internal = any(rule.is_internal for rule in finding)
        self._has_find = bool(finding)
        self._internal_kinds = frozenset(internal_kinds())
        # All named patterns, as one set.
        names = dict.fromkeys(name for rule in finding for name in _list_names(rule.find))
        self._named = compile_find([*names]) if names else None
        # Whether all rules treat plain new records of the same writer, kind and tags alike, except
        # for matches in the content.
        self.may_defer = not any(
            rule.action == "limit" or rule.fields & OWN_FIELDS for rule in self.rules
        )
        # A pattern of a user may have anchors, so it sees each text by itself.
        self._own = tuple(
            rule.finder for rule in finding if rule.finder and isinstance(rule.find, dict)
        )

    def concerns(self, new: State, memory_id: str, origin: tuple[str, ...]) -> bool:
        """Return whether a rule other than a limit without `find` may hold for a record. `origin`
        has the values of Origin.
        """
        for holds, comes in self._plain:
            if (holds is None or holds(new)) and (comes is None or comes(origin)):
                return True
        if not self._has_find:
            return False
        is_hidden = new.kind in self._internal_kinds or new.encrypted
        with_values = self._is_internal or not (is_hidden and has_hidden_values(new))
        texts = list_texts(new, memory_id, with_values=with_values)
        if self._named is not None and self._named.may_match(texts):
            return True
        return bool(self._own) and self._may_find_own(texts)

    def concern_any(self, records: Sequence[DeferredRecord], memory_id: str) -> bool:
        """Return whether a rule may hold for one of some plain new records. `may_defer` is true."""
        alike = {(*record[1:3], *record[4:6], origin): record for record, origin in records}
        for (*_, origin), record in alike.items():
            if self.concerns(make_state(record), memory_id, origin):
                return True
        return self._has_find and self.may_find([record[3] for record, _ in records])

    def may_find(self, texts: Sequence[str]) -> bool:
        """Return whether a rule may find something in these texts."""
        is_named = self._named is not None and self._named.may_match(texts)
        return is_named or self._may_find_own(texts)

    def _may_find_own(self, texts: Sequence[str]) -> bool:
        return any(finder.may_match((text,)) for finder in self._own for text in texts)


def _list_names(find: Any) -> list[str]:
    """Return the names of a `find`, none for a pattern."""
    if isinstance(find, dict):
        return []
    return [find] if isinstance(find, str) else find


def has_hidden_values(state: State) -> bool:
    """Return whether the content and the data of a record are internal or encrypted."""
    return bool(state.encrypted) or (not state.in_context and state.kind in internal_kinds())


def list_texts(state: State, memory_id: str, *, with_values: bool) -> list[str]:
    """Return the texts of a record that rules look at."""
    texts = [state.source, state.kind]
    if with_values:
        texts.append(state.content)
    if with_values and state.data is not None:
        texts += find_strings(orjson.loads(state.data))
    if state.tags != "[]":
        texts += orjson.loads(state.tags)
    if state.key or state.owner or state.thread or state.scope != memory_id:
        texts += list_identities(state, memory_id)
    elif not MADE_GUID.fullmatch(state.guid):
        texts.append(state.guid)
    return texts


def list_identities(state: State, memory_id: str) -> list[str]:
    """Return the texts by which a record is found. Ids that are made for records are left
    out.
    """
    found = [state.kind]
    if state.key:
        found.append(state.key)
    if state.owner:
        found.append(state.owner)
    if state.thread:
        found.append(state.thread)
    if state.scope != memory_id:
        found.append(state.scope)
    if not MADE_GUID.fullmatch(state.guid):
        found.append(state.guid)
    return found


class Stop(NamedTuple):
    """A policy that holds a record back."""

    policy: str
    action: StopAction


class Judgment(NamedTuple):
    """The decision of the policies about a record."""

    # The record as it would be stored, redacted and with its tags and expiry.
    state: State
    # The policies that have changed it, with their actions.
    acted: tuple[tuple[str, Action], ...]
    # The limits that count it.
    limits: tuple[Rule, ...]
    stop: Stop | None
    # Replacement by found value, of all rules that redact, refuse or drop.
    replaced: Mapping[str, str]


class Judge:
    """Judges one record. `key` makes the digests of redacted values. `origin` has the values of
    Origin.
    """

    def __init__(
        self, key: bytes, memory_id: str, now_ms: int, origin: tuple[str, ...] = NO_ORIGIN
    ) -> None:
        self._key, self._memory_id, self._now_ms = key, memory_id, now_ms
        self._origin = origin
        # By action: the first policy that stops the write so.
        self._stops: dict[StopAction, str] = {}
        # By text: what to replace in it, and the first policy that does.
        self._to_redact: dict[str, list[Match]] = {}
        self._redactors: dict[str, str] = {}
        self._replaced: dict[str, str] = {}

    def judge(self, rules: Sequence[Rule], new: State, before: State | None) -> Judgment:
        """Return what the rules decide. `before` is the record as it is, None for a new one."""
        seam = find_seam(new, before)
        changed, acted, limits = new, list[tuple[str, Action]](), list[Rule]()
        for rule in rules:
            if not self._holds(rule, new):
                continue
            found: Found = {} if rule.finder is None else self._find(rule, new, seam)
            if rule.finder is not None and not found:
                continue
            if rule.action == "limit":
                limits.append(rule)
                continue
            after = self._apply(rule, changed, found)
            if after is not None:
                changed = after
                acted.append((rule.name, rule.action))
        redacted = self._redact_state(changed)
        return Judgment(redacted, tuple(acted), tuple(limits), self._find_stop(), self._replaced)

    def _holds(self, rule: Rule, state: State) -> bool:
        """Return whether a rule holds apart from what it finds."""
        if rule.holds is not None and not rule.holds(state):
            return False
        return rule.comes is None or rule.comes(self._origin)

    def _find_stop(self) -> Stop | None:
        """Return the strictest stop."""
        found = (Stop(self._stops[action], action) for action in STOPS if action in self._stops)
        return next(found, None)

    def judge_texts(
        self, rules: Sequence[Rule], texts: Sequence[str], names: Sequence[str], about: State
    ) -> Judgment:
        """Return what the rules that find texts decide about texts that are no record.

        Redacting rules redact, all others refuse. All refuse matches in `names`.
        `state` is `about`.
        """
        acted = list[tuple[str, Action]]()
        for rule in rules:
            if rule.finder is None or rule.action not in (REDACT, *STOPS):
                continue
            if not self._holds(rule, about):
                continue
            found = {
                text: matches for text in (*texts, *names) if (matches := rule.finder.find(text))
            }
            if not found:
                continue
            self._note_values(found)
            if rule.action == REDACT and found.keys().isdisjoint(names):
                self._add_redactions(rule, found)
                acted.append((rule.name, REDACT))
            else:
                self._stops.setdefault("refuse", rule.name)
        return Judgment(about, tuple(acted), (), self._find_stop(), self._replaced)

    def redact_text(self, text: str) -> str:
        """Return a text with what the rules have found in it replaced."""
        matches = self._to_redact.get(text)
        return redact(text, merge_matches(matches), self._key) if matches else text

    def _find(self, rule: Rule, state: State, seam: int | None) -> Found:
        """Return what a rule finds, by text. After an append, only what ends behind the seam."""
        assert rule.finder is not None
        hidden = has_hidden_values(state)
        if seam is not None:
            if hidden and not rule.is_internal:
                return {}
            matches = [one for one in rule.finder.find(state.content) if one.end > seam]
            return {state.content: matches} if matches else {}
        texts = list_texts(state, self._memory_id, with_values=rule.is_internal or not hidden)
        return {
            text: matches
            for text in dict.fromkeys(texts)
            if not (hidden and is_sealed(text)) and (matches := rule.finder.find(text))
        }

    def _apply(self, rule: Rule, changed: State, found: Found) -> State | None:
        """Do what a rule that holds does. Return the record with its change, None for no change."""
        if rule.action in (REDACT, "refuse", "drop"):
            self._note_values(found)
        match rule.action:
            case "redact":
                identities = list_identities(changed, self._memory_id)
                if not found.keys().isdisjoint(identities):
                    self._stops.setdefault("refuse", rule.name)
                    return None
                self._add_redactions(rule, found)
                return changed
            case "tag":
                tags = orjson.loads(changed.tags)
                if rule.value in tags:
                    return None
                return changed._replace(tags=orjson.dumps([*tags, rule.value]).decode())
            case "ttl_s":
                ends_at = self._now_ms + int(rule.value * 1000)
                is_earlier = changed.expires_at is not None and changed.expires_at <= ends_at
                return None if is_earlier else changed._replace(expires_at=ends_at)
            case "refuse" | "drop" | "review" as action:
                self._stops.setdefault(action, rule.name)
        return None

    def _add_redactions(self, rule: Rule, found: Found) -> None:
        for text, matches in found.items():
            self._to_redact.setdefault(text, []).extend(matches)
            self._redactors.setdefault(text, rule.name)

    def _note_values(self, found: Found) -> None:
        """Note the replacement of each found value."""
        for text, matches in found.items():
            for one in matches:
                value = text[one.start : one.end]
                whole = Match(one.name, 0, len(value))
                self._replaced[value] = redact(value, [whole], self._key)

    def _redact_state(self, state: State) -> State:
        if not self._to_redact:
            return state
        data = state.data
        if data is not None:
            data = orjson.dumps(replace_strings(orjson.loads(data), self.redact_text)).decode()
        tags = orjson.loads(state.tags)
        content = self.redact_text(state.content)
        if content != state.content and _breaks_json(state, content):
            self._stops.setdefault("refuse", self._redactors[state.content])
        return state._replace(
            content=content,
            source=self.redact_text(state.source),
            tags=orjson.dumps([self.redact_text(tag) for tag in tags]).decode() if tags else "[]",
            data=data,
        )


def _breaks_json(state: State, content: str) -> bool:
    """Return whether a record with JSON would have none with this content. The kinds with JSON also
    select documents, which have any text.
    """
    if not any(fnmatchcase(state.kind, glob) for glob in json_kinds()):
        return False
    return _is_json(state.content) and not _is_json(content)


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def find_seam(new: State, before: State | None) -> int | None:
    """Return where the added text of an append begins, None for any other write."""
    if before is None or len(new.content) <= len(before.content):
        return None
    if not new.content.startswith(before.content):
        return None
    is_append = all(getattr(new, name) == getattr(before, name) for name in KEPT)
    return len(before.content) if is_append else None


def merge_matches(matches: Iterable[Match]) -> list[Match]:
    """Return matches in their order; overlapping ones of several rules become one."""
    merged = list[Match]()
    for one in sorted(matches, key=lambda match: (match.start, -match.end)):
        if merged and one.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = Match(last.name, last.start, max(last.end, one.end))
        else:
            merged.append(one)
    return merged
