"""The model of a file of golden questions: each question with what it must and must not find."""

from functools import cached_property
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from memrelay.blocks.patterns import Pattern
from memrelay.memory.field_descriptions import DescribedModel

MAX_QUESTIONS = 10_000
MAX_EXPECTED = 100  # of each list of a question
MAX_K = 100
MAX_TEXT = 10_000  # characters
SearchName = Literal[
    "records.search", "knowledge.search", "facts.search", "items.search", "documents.search"
]
Json = dict[str, Any]


def _check_regex(source: str) -> str:
    Pattern(source)
    return source


def _read_text(value: Any) -> Any:
    """Return the object for a plain text: a result that contains it."""
    return {"text": value} if isinstance(value, str) else value


class Part(DescribedModel):
    """A part of the file. Unknown keys are faults."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _require_any(*names: str) -> ConfigDict:
    """Let the JSON schema require one of these keys, as a validator of the model does."""
    return ConfigDict(json_schema_extra={"anyOf": [{"required": [name]} for name in names]})


class Expected(Part):
    """One result, which meets all conditions that are given. A plain text stands for `text`."""

    model_config = _require_any("guid", "key", "text", "regex")

    guid: str = Field("", max_length=MAX_TEXT)
    """The guid of a record or a fact, or the id of an entry or a document."""
    key: str = Field("", max_length=MAX_TEXT)
    """The key of a record, a fact or an item."""
    text: str = Field("", max_length=MAX_TEXT)
    """A text that the content contains, in lower or upper case."""
    regex: Annotated[str, AfterValidator(_check_regex)] = ""
    """A regular expression (RE2) that matches within the content."""

    @model_validator(mode="after")
    def _names_a_result(self) -> Self:
        if not (self.guid or self.key or self.text or self.regex):
            raise ValueError("names no result: add guid, key, text or regex")
        return self

    @cached_property
    def pattern(self) -> Pattern | None:
        """The compiled `regex`."""
        return Pattern(self.regex) if self.regex else None

    def __str__(self) -> str:
        named = {"guid": self.guid, "key": self.key, "text": self.text, "regex": self.regex}
        return ", ".join(f"{name} {_quoted(value)}" for name, value in named.items() if value)


class Required(Expected):
    """One result that must be found. A plain text stands for `text`."""

    max_rank: int = Field(MAX_K, ge=1, le=MAX_K)
    """The last rank at which it may be. 1 is the first result."""


def _quoted(value: str) -> str:
    return orjson.dumps(value).decode()


class SearchChoices(Part):
    """How to search."""

    search: SearchName = "records.search"
    """The operation that answers the question."""
    mode: str | None = None
    """The mode of the search, as in the operation: `fts`, `hybrid` or `semantic`."""
    filter: Json | None = None
    """Only results that pass this filter (docs/filters.md)."""
    store: str = Field("", max_length=MAX_TEXT)
    """The memory_id of a store; `${pipeline_uid}` is replaced. By default the bundle's first."""
    memory: str = Field("", max_length=MAX_TEXT)
    """The name or id of a named memory, for `knowledge.search`."""
    k: int = Field(10, ge=1, le=MAX_K)
    """How many of the first results count."""
    input: Json = Field(default_factory=dict)
    """Further fields of the operation, such as `kind`, `tags`, `agent` or `user_id`."""


RequiredResult = Annotated[
    Required, BeforeValidator(_read_text, json_schema_input_type=Required | str)
]
ExpectedResult = Annotated[
    Expected, BeforeValidator(_read_text, json_schema_input_type=Expected | str)
]


class Question(SearchChoices):
    """A question, and what must, may or must not be among its first `k` results."""

    model_config = _require_any("must", "may", "must_not", "nothing")

    question: str = Field(min_length=1, max_length=MAX_TEXT)
    """The query."""
    name: str = Field("", max_length=MAX_TEXT)
    """The name in reports. By default the question."""
    must: list[RequiredResult] = Field(default_factory=list, max_length=MAX_EXPECTED)
    """Results that must be found."""
    may: list[ExpectedResult] = Field(default_factory=list, max_length=MAX_EXPECTED)
    """With this list, a result that neither `must` nor `may` names is a failure."""
    must_not: list[ExpectedResult] = Field(default_factory=list, max_length=MAX_EXPECTED)
    """Results that must not be found."""
    in_order: bool = False
    """Whether the results of `must` must have the order of the list."""
    nothing: bool = False
    """Whether nothing must be found."""

    @model_validator(mode="after")
    def _expects_something(self) -> Self:
        results = self.must or self.may or self.must_not
        if self.nothing and results:
            raise ValueError("has both `nothing` and results: remove one of them")
        if not self.nothing and not results:
            raise ValueError("states no expectation: add must, may or must_not, or `nothing: true`")
        return self

    @property
    def title(self) -> str:
        """The name in reports."""
        return self.name or self.question


class QuestionFile(Part):
    """Golden questions."""

    defaults: SearchChoices = Field(default_factory=lambda: SearchChoices.model_validate({}))
    """How to search for all questions that do not say it themselves."""
    questions: list[Question] = Field(min_length=1, max_length=MAX_QUESTIONS)
    """The questions."""
