"""The JSON of a message, and the arguments that select a part of it."""

from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field

from memrelay.blocks.contract import Call
from memrelay.bus.message import Message
from memrelay.memory.records.data import LEFT_OUT, as_text, fit
from memrelay.memory.records.record import PLAIN, RecordExtras
from memrelay.pipelines.expressions import (
    MAX_CHARACTERS,
    Expression,
    ExpressionFault,
    compile_expression,
    parse_json_text,
    to_text,
)


def _check_expression(text: str) -> str:
    compile_expression(text)
    return text


_IS_LIMITED = Field(json_schema_extra={"maxLength": MAX_CHARACTERS, "format": "jmespath"})
ExpressionText = Annotated[str, AfterValidator(_check_expression), _IS_LIMITED]
# An expression, or "" for none.
OptionalExpression = Annotated[
    str, AfterValidator(lambda text: text and _check_expression(text)), _IS_LIMITED
]
# The agents of a pipeline mostly read one text after the other.
_latest: tuple[str, Any] = "", {"text": ""}


def read_json(message: Message) -> Any:
    """Return the JSON value of a message's text; {"text": text} if it is not JSON.

    It is parsed once for all agents that get the message, so do not change it.
    """
    global _latest
    text, value = _latest
    if text is not message.text:
        text, value = message.text, parse_json_text(message.text)
        _latest = text, value
    return value


class Selection(NamedTuple):
    """The parts of a message's JSON that a record takes. None: all of the text, and no data."""

    content: Expression | None
    data: Expression | None

    def select_content(self, call: Call, text: str) -> str:
        """Return the content of a record, `text` if the expression gives null.

        Raises ExpressionFault.
        """
        if self.content is None:
            return text
        value = self.content.evaluate(read_json(call.message), _find_limit(call))
        return text if value is None else to_text(value)

    def select_extras(self, call: Call) -> RecordExtras:
        """Return the data of a record. A value that does not fit is left out, with the reason."""
        if self.data is None:
            return PLAIN
        try:
            value = self.data.evaluate(read_json(call.message), _find_limit(call))
        except ExpressionFault as fault:
            value = {LEFT_OUT: {"data": str(fault)}}
        if value is None:
            return PLAIN
        return RecordExtras(
            data=as_text(fit(value if isinstance(value, dict) else {"value": value}))
        )


def make_selection(content: str, data: str) -> Selection | None:
    """Return the selection of two expressions, None without any."""
    if not content and not data:
        return None
    return Selection(*[compile_expression(text) if text else None for text in (content, data)])


def _find_limit(call: Call) -> int:
    # A record may be as long as the body that it is made of.
    return max(call.limits.message_bytes, 4 * len(call.text))
