"""JSON Schema for the texts of messages, within bounds.

Schemas come from bundles and texts from strangers, and both run in the database thread. So a schema
is small, its patterns run in RE2, and its evaluation counts its steps. The validator is loaded with
the first bundle that has a schema: its import takes longer than the check of a bundle.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import orjson
from jsonschema import Draft7Validator, Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry

from memrelay.blocks.patterns import MAX_STEPS_TOGETHER, BadPattern, Pattern
from memrelay.memory.validation import pointer
from memrelay.pipelines.expressions import count_steps, parse_json
from memrelay.pipelines.report import JsonPath, quoted

Schema = dict[str, Any]
Check = Callable[[Any, Any, Any, Any], Iterable[ValidationError] | None]

MAX_BYTES = 64 << 10  # of a schema
# Keywords that are evaluated, the elements that they read, and characters of texts.
MAX_STEPS = 100_000
MAX_DEPTH = 200  # of keywords in keywords during an evaluation
MAX_UNIQUE = 1_000  # items of a list with `uniqueItems`
MAX_QUOTED = 200  # characters of the schema in a fault

DRAFTS = {
    "https://json-schema.org/draft/2020-12/schema": Draft202012Validator,
    "http://json-schema.org/draft-07/schema": Draft7Validator,
}
# Keywords whose value is a schema, a list of schemas, or schemas by name. `items` is both.
_ONE = frozenset(
    (
        *("additionalItems", "additionalProperties", "contains", "else", "if", "items", "not"),
        *("propertyNames", "then"),
    )
)
_LISTS = frozenset(("allOf", "anyOf", "items", "oneOf", "prefixItems"))
_NAMED = frozenset(
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"]
)
# Keywords that look up schemas by other names, or evaluate parts of a schema twice.
_REFUSED = frozenset(
    (
        *("$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef"),
        *("$schema", "unevaluatedItems", "unevaluatedProperties"),
    )
)
# Keywords that read each element of a list or object.
_READ_ELEMENTS = frozenset(
    ("additionalItems", "additionalProperties", "contains", "items", "propertyNames")
)


class BadSchema(ValueError):
    """A schema is refused. `path` leads to the place in the schema."""

    def __init__(self, rule: str, path: JsonPath = ()) -> None:
        super().__init__(rule)
        self.path = path


class _Bound(Exception):
    """An evaluation has reached a bound. The text names it."""


class MessageSchema:
    """A compiled schema. Raises BadSchema.

    `source` is the schema as given. `pattern_steps` is the size of its compiled patterns.
    """

    def __init__(self, source: Schema) -> None:
        draft = _find_draft(source)
        self.source = source
        schema = {key: value for key, value in source.items() if key not in ("$schema", "$id")}
        places = _find_places(schema)
        _check_references(places)
        try:
            # Patterns are checked below, and the validator's check would run them in `re`.
            draft.check_schema(schema, format_checker=None)
        except SchemaError as error:
            rule = f"not JSON Schema: {error.message[:MAX_QUOTED]}"
            raise BadSchema(rule, tuple(error.absolute_path)) from error
        patterns = _compile_patterns(places)
        self.pattern_steps = sum(one.steps for one in patterns.values())
        self._names = {name for one in places.values() for name in one.get("properties", ())}
        self._evaluation = _Evaluation(patterns)
        # The registry is empty, so that nothing is fetched.
        registry: Registry[Any] = Registry()
        checks = {name: self._evaluation.count(name, one) for name, one in draft.VALIDATORS.items()}
        self._validator = extend(draft, checks)(schema, registry=registry)

    def embed(self, pointer: str) -> Schema:
        """Return the schema for a document that has it at this pointer, like `#/components/x`.

        OpenAPI and AsyncAPI give two keywords another meaning; they are left out.
        """
        schema: Schema = orjson.loads(orjson.dumps(self.source))
        for key in ("$schema", "$id"):
            schema.pop(key, None)
        for one in _find_places(schema).values():
            for key in ("discriminator", "externalDocs"):
                one.pop(key, None)
            if "$ref" in one:
                one["$ref"] = pointer + one["$ref"][1:]
        return schema

    def find_fault(self, text: str) -> str:
        """Return which rule of the schema a text breaks, "" if none.

        A text that is not JSON is a string. The fault quotes the schema and not the text, which
        must not stand in logs.
        """
        self._evaluation.begin()
        try:
            error = next(self._validator.iter_errors(_parse(text)), None)
        except _Bound as bound:
            return str(bound)
        except ArithmeticError:
            return "the text has a number that is too large for the schema"
        except RecursionError:
            return "the text is nested too deeply for the schema"
        return "" if error is None else self._describe(error)

    def _describe(self, error: ValidationError) -> str:
        steps = [
            f"[{step}]" if isinstance(step, int) else f".{step if step in self._names else '*'}"
            for step in error.absolute_path
        ]
        at = f"${''.join(steps)}"[:MAX_QUOTED]
        if error.validator == "required":
            missing = next(name for name in error.validator_value if name not in error.instance)
            return f"{at} needs the property {quoted(missing)}"
        if error.validator is None:
            return f"{at} is not allowed by {_name_place(error)}"
        rule = orjson.dumps(error.validator_value).decode()
        shown = rule if len(rule) <= MAX_QUOTED else f"{rule[:MAX_QUOTED]}..."
        return f"{at} breaks {_name_place(error)}: {shown}"


class _Evaluation:
    """Counts the steps of the evaluation that a thread runs."""

    def __init__(self, patterns: Mapping[str, Pattern]) -> None:
        self._patterns, self._state = patterns, threading.local()
        self._own: dict[str, Check] = {
            "additionalProperties": self._check_additional,
            "pattern": self._check_pattern,
            "patternProperties": self._check_pattern_properties,
            "uniqueItems": self._check_unique,
        }

    def begin(self) -> None:
        self._state.left, self._state.depth = MAX_STEPS, 0

    def count(self, keyword: str, given: Check) -> Check:
        """Return the check of a keyword with a count of its steps. It returns the first fault."""
        check, state = self._own.get(keyword, given), self._state

        def run(validator: Any, value: Any, instance: Any, schema: Any) -> list[ValidationError]:
            self._spend(1 + self._count_before(keyword, value, instance))
            state.depth += 1
            if state.depth > MAX_DEPTH:
                raise _Bound(f"the text needs more than {MAX_DEPTH} nested rules of the schema")
            error = next(iter(check(validator, value, instance, schema) or ()), None)
            state.depth -= 1
            if error is None:
                return []
            # The library writes both into the text of the fault.
            self._spend(self._size(instance) + self._size(value))
            return [error]

        return run

    def _count_before(self, keyword: str, value: Any, instance: Any) -> int:
        if keyword in ("const", "enum"):
            return self._size(value)
        steps = len(value) if isinstance(value, list | dict) else 0
        if keyword in _READ_ELEMENTS and isinstance(instance, list | dict):
            steps += len(instance)
        return steps

    def _size(self, value: Any) -> int:
        return count_steps(value, self._state.left, deep=True)

    def _spend(self, steps: int) -> None:
        self._state.left -= steps
        if self._state.left < 0:
            raise _Bound(f"the evaluation of the schema takes more than {MAX_STEPS} steps")

    def _matches(self, source: str, text: str) -> bool:
        self._spend(1 + count_steps(text, self._state.left, deep=False))
        return self._patterns[source].capture(text, 0) is not None

    def _check_pattern(
        self, _validator: Any, source: str, instance: Any, _schema: Any
    ) -> Iterator[ValidationError]:
        if isinstance(instance, str) and not self._matches(source, instance):
            yield ValidationError("")

    def _check_pattern_properties(
        self, validator: Any, schemas: Schema, instance: Any, _schema: Any
    ) -> Iterator[ValidationError]:
        if not isinstance(instance, dict):
            return
        for source, inner in schemas.items():
            for name in instance:
                if self._matches(source, name):
                    yield from validator.descend(
                        instance[name], inner, path=name, schema_path=source
                    )

    def _check_additional(
        self, validator: Any, inner: Any, instance: Any, schema: Schema
    ) -> Iterator[ValidationError]:
        if not isinstance(instance, dict):
            return
        named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        for name in instance:
            if name not in named and not any(self._matches(one, name) for one in patterns):
                if inner is False:
                    yield ValidationError("")
                yield from validator.descend(instance[name], inner, path=name)

    def _check_unique(
        self, _validator: Any, value: bool, instance: Any, _schema: Any
    ) -> Iterator[ValidationError]:
        if not value or not isinstance(instance, list):
            return
        if len(instance) > MAX_UNIQUE:
            raise _Bound(
                f"uniqueItems compares at most {MAX_UNIQUE} items, and a list has {len(instance)}"
            )
        self._spend(self._size(instance))
        if len({_make_key(one) for one in instance}) < len(instance):
            yield ValidationError("")


def _parse(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return text.encode(errors="replace").decode()


def _make_key(value: Any) -> Any:
    """Return a key that is equal for equal JSON values: 1 and 1.0, but not 1 and true."""
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, list):
        return "list", tuple(_make_key(one) for one in value)
    if isinstance(value, dict):
        return "dict", frozenset((name, _make_key(one)) for name, one in value.items())
    return value


def _find_draft(source: Schema) -> Any:
    size = len(orjson.dumps(source))
    if size > MAX_BYTES:
        raise BadSchema(f"a schema has at most {MAX_BYTES} bytes, not {size}")
    name = source.get("$schema", next(iter(DRAFTS)))
    draft = DRAFTS.get(name.removesuffix("#")) if isinstance(name, str) else None
    if draft is None:
        raise BadSchema(f"unknown draft; known are {', '.join(DRAFTS)}", ("$schema",))
    return draft


def _find_places(schema: Schema) -> dict[JsonPath, Schema]:
    """Return each schema inside the schema by its place. Raises BadSchema for a refused keyword."""
    places: dict[JsonPath, Schema] = {}
    open_schemas: list[tuple[JsonPath, Any]] = [((), schema)]
    while open_schemas:
        path, one = open_schemas.pop()
        if not isinstance(one, dict):
            continue
        places[path] = one
        for refused in sorted(_REFUSED & one.keys()):
            raise BadSchema(f"the keyword {refused} is not available", (*path, refused))
        for key, value in one.items():
            inner = (*path, key)
            if key in _ONE and not isinstance(value, list):
                open_schemas.append((inner, value))
            elif key in _LISTS and isinstance(value, list):
                open_schemas.extend(((*inner, at), each) for at, each in enumerate(value))
            elif key in _NAMED and isinstance(value, dict):
                open_schemas.extend(((*inner, name), each) for name, each in value.items())
    return places


def _check_references(places: Mapping[JsonPath, Schema]) -> None:
    known = {pointer(path) for path in places}
    for path, schema in places.items():
        target = schema.get("$ref", "#")
        if not isinstance(target, str) or not target.startswith("#"):
            raise BadSchema("a $ref stays inside the schema, like #/$defs/name", (*path, "$ref"))
        if unquote(target[1:]) not in known:
            raise BadSchema(f"there is no schema at {quoted(target)}", (*path, "$ref"))


def _compile_patterns(places: Mapping[JsonPath, Schema]) -> dict[str, Pattern]:
    """Return the compiled patterns by source. Raises BadSchema."""
    patterns: dict[str, Pattern] = {}
    steps = 0
    for path, schema in places.items():
        given = [((*path, "pattern"), schema["pattern"])] if "pattern" in schema else []
        inner = schema.get("patternProperties", {})
        for at, source in [*given, *(((*path, "patternProperties", one), one) for one in inner)]:
            if source in patterns:
                continue
            try:
                patterns[source] = Pattern(source)
            except BadPattern as error:
                raise BadSchema(str(error), at) from error
            steps += patterns[source].steps
            if steps > MAX_STEPS_TOGETHER:
                raise BadSchema("the patterns are too large together; use smaller ones", at)
    return patterns


def _name_place(error: ValidationError) -> str:
    return ".".join(map(str, error.absolute_schema_path))[-MAX_QUOTED:] or "the schema"
