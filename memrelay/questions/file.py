"""Read a file of golden questions. Each fault has the line, the field and a remedy."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson
import yaml
from pydantic import ValidationError

from memrelay.memory.engine.identity import CONTEXTS, VOUCHED
from memrelay.memory.operations import input_schema, known_operation
from memrelay.memory.validation import pointer
from memrelay.pipelines.report import Fault, JsonPath, Report, did_you_mean
from memrelay.pipelines.rules import report_validation_error
from memrelay.questions.model import Expected, Json, Question, QuestionFile, Required, SearchChoices

MAX_BYTES = 8 << 20
MAX_NODES = 500_000
KNOWLEDGE = "knowledge.search"
TOKEN = "${pipeline_uid}"
UNKNOWN_KEY = "is no known key"
KEYS = {
    name
    for model in (QuestionFile, SearchChoices, Question, Expected, Required)
    for name in model.model_fields
}
# The fields of a question by the fields of an operation.
FIELDS = {"query": "question", "limit": "k", "top_k": "k", "memory_ids": "memory"}
OWN_FIELDS = ("mode", "filter")
# The parser in C reads a file of 1,000 questions in a tenth of the time.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class LineFault:
    """A fault of the file. `line` counts from 1."""

    line: int
    fault: Fault

    def as_line(self, file: str) -> str:
        """Return `questions.yaml:12: questions[3].k: <rule>; <remedy>`."""
        return self.fault.as_line(f"{file}:{self.line}")


class InvalidQuestions(Exception):
    """The file is invalid. `faults` are in the order of their lines."""

    def __init__(self, faults: list[LineFault]) -> None:
        super().__init__(f"{len(faults)} faults")
        self.faults = sorted(faults, key=lambda one: one.line)


def read_questions(raw: bytes, uid: str = "") -> list[Question]:
    """Return the questions of a file in YAML, with its defaults filled in.

    `uid` replaces `${pipeline_uid}` in the names of stores. Raises InvalidQuestions.
    """
    tree = _Tree(raw)
    report = Report()
    value = tree.value if isinstance(tree.value, dict) else {}
    if not value:
        report.error((), "must hold `questions`, a list of questions with what they must find")
    else:
        value = _fill_defaults(value, report)
    questions = [] if report.errors else _read_model(value, report)
    for at, question in enumerate(questions):
        if report.full("error"):
            break
        _check_search(question, ("questions", at), report)
    if report.errors:
        raise InvalidQuestions([tree.locate(fault) for fault in report.errors])
    return [
        question.model_copy(update={"store": question.store.replace(TOKEN, uid)})
        for question in questions
    ]


def make_input(question: Question, memory_id: str = "") -> Json:
    """Return the input of the question's operation. `memory_id` is the id of its named memory."""
    operation = known_operation(question.search)
    properties = input_schema(operation)["properties"]
    limit = "top_k" if "top_k" in properties else "limit"
    given: Json = {"query": question.question, limit: question.k}
    # A search without a mode waits for an embedder that is loading.
    given |= {"wait": True} if "wait" in properties else {}
    given |= {} if question.mode is None else {"mode": question.mode}
    given |= {} if question.filter is None else {"filter": question.filter}
    given |= {"memory_ids": [memory_id]} if question.memory else {}
    given |= {VOUCHED: CONTEXTS} if operation.has_caller else {}
    return {**question.input, **given}


def _fill_defaults(value: Json, report: Report) -> Json:
    """Return the file with its defaults in each question. Faulty defaults are reported alone."""
    defaults, questions = value.get("defaults", {}), value.get("questions")
    try:
        SearchChoices.model_validate(defaults)
    except ValidationError as error:
        report_validation_error(error, defaults, ("defaults",), report)
        return value
    if not isinstance(questions, list):
        return value
    filled = [{**defaults, **one} if isinstance(one, dict) else one for one in questions]
    return value | {"questions": filled}


def _read_model(value: Json, report: Report) -> list[Question]:
    try:
        return QuestionFile.model_validate(value).questions
    except ValidationError as error:
        report_validation_error(error, value, (), report)
        return []


def _check_search(question: Question, path: JsonPath, report: Report) -> None:
    """Report what the operation would refuse in the input of a question."""
    if question.memory and question.search != KNOWLEDGE:
        rule = f"{question.search} searches no named memories"
        report.error((*path, "memory"), rule, f"use `search: {KNOWLEDGE}`")
        return
    given = make_input(question, "an id")
    for name in question.input:
        if name in FIELDS or name in OWN_FIELDS:
            rule = f"is set by `{FIELDS.get(name, name)}` of the question"
            report.error((*path, "input", name), rule, "remove it")
    try:
        known_operation(question.search).adapter.validate_json(orjson.dumps(given), strict=True)
    except ValidationError as error:
        found = Report()
        report_validation_error(error, given, (), found)
        for fault in found.errors:
            report.error((*path, *_find_field(fault.pointer)), fault.rule)


def _find_field(at: str) -> JsonPath:
    """Return the place in a question of a place in the input of its operation."""
    name, *rest = at.removeprefix("/").split("/")
    if name in FIELDS:
        return (FIELDS[name],)
    return (name, *rest) if name in OWN_FIELDS else ("input", name, *rest)


class _Tree:
    """The values of a YAML file, and the lines at which they begin, by JSON pointer.

    Raises InvalidQuestions.
    """

    def __init__(self, raw: bytes) -> None:
        self._lines: dict[str, int] = {"": 1}
        self._seen: set[int] = set()
        self.value = self._build(self._compose(raw), ())

    def locate(self, fault: Fault) -> LineFault:
        """Return a fault with the line of its value, or of the nearest value around it."""
        at = fault.pointer
        while at not in self._lines:
            at = at.rpartition("/")[0]
        if fault.rule == UNKNOWN_KEY and not fault.suggestion:
            fault = replace(fault, suggestion=did_you_mean(fault.pointer.rpartition("/")[2], KEYS))
        return LineFault(self._lines[at], fault)

    def _compose(self, raw: bytes) -> yaml.Node | None:
        if len(raw) > MAX_BYTES:
            raise _refuse(1, f"the file has {len(raw)} bytes; at most {MAX_BYTES}; split it")
        try:
            return yaml.compose(raw.decode(), _Loader)
        except UnicodeDecodeError as error:
            line = 1 + raw.count(b"\n", 0, error.start)
            raise _refuse(line, "not UTF-8; save the file as UTF-8") from error
        except RecursionError as error:
            raise _refuse(1, "nested too deep") from error
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            raise _refuse(mark.line + 1 if mark else 1, f"not YAML: {error.problem}") from error
        except yaml.YAMLError as error:
            raise _refuse(1, f"not YAML: {error}") from error

    def _build(self, node: yaml.Node | None, path: JsonPath) -> Any:
        """Return the value of a node. Times stay texts."""
        if node is None:
            return None
        line = node.start_mark.line + 1
        if id(node) in self._seen:
            line = self._lines.get(pointer(path), line)
            raise _refuse(line, "aliases (`*name`) are not read; use `defaults`", path)
        self._seen.add(id(node))
        if len(self._seen) > MAX_NODES:
            raise _refuse(line, f"more than {MAX_NODES} values; split the file")
        self._lines.setdefault(pointer(path), line)
        if isinstance(node, yaml.SequenceNode):
            return [self._build(one, (*path, at)) for at, one in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            return dict(self._build_pairs(node, path))
        return _read_scalar(node)

    def _build_pairs(self, node: yaml.MappingNode, path: JsonPath) -> Iterator[tuple[str, Any]]:
        seen: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise _refuse(line, "a key must be a text", path)
            name = str(key.value)
            if name in seen:
                rule = f"has the key {name[:100]!r} twice (first in line {seen[name]}); remove one"
                raise _refuse(line, rule, path)
            seen[name] = line
            self._lines[pointer((*path, name))] = line
            yield name, self._build(value, (*path, name))


def _read_scalar(node: yaml.Node) -> Any:
    """Return a text, a number, a flag or null."""
    loader = yaml.SafeLoader("")
    try:
        value = loader.construct_object(node)
    except (ValueError, yaml.YAMLError):
        value = node.value
    return value if isinstance(value, str | int | float | None) else node.value


def _refuse(line: int, rule: str, path: JsonPath = ()) -> InvalidQuestions:
    return InvalidQuestions([LineFault(line, Fault(pointer(path), rule))])
