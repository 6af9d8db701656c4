"""json_map: publish a part of the JSON of a message."""

from functools import cached_property

from memrelay.blocks.contract import BlockArgs, Call
from memrelay.blocks.json_values import ExpressionText, read_json
from memrelay.blocks.registry import block
from memrelay.bus.message import JSON, PLAIN, Message
from memrelay.pipelines.expressions import Expression, compile_expression, to_text


class JsonMapArgs(BlockArgs):
    """The part to publish."""

    expression: ExpressionText
    """A JMESPath expression over the JSON of the text, like `issue.title` or
    `{who: sender.login, what: action}`. A text that is not JSON is `{"text": ...}`."""

    @cached_property
    def compiled(self) -> Expression:
        return compile_expression(self.expression)


@block("json_map", JsonMapArgs)
def json_map(call: Call, args: JsonMapArgs) -> Message | None:
    """Return a string as text, and any other value as JSON. If the value is null, publish
    nothing."""
    value = args.compiled.evaluate(read_json(call.message), call.limits.message_bytes)
    if value is None:
        return None
    return call.reply(to_text(value), PLAIN if isinstance(value, str) else JSON)
