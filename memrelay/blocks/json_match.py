"""json_match: pass on messages whose JSON fulfills a condition, such as events of one kind."""

from functools import cached_property

from memrelay.blocks.contract import BlockArgs, Call
from memrelay.blocks.json_values import ExpressionText, read_json
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.pipelines.expressions import Expression, compile_expression


class JsonMatchArgs(BlockArgs):
    """The condition."""

    expression: ExpressionText
    """A JMESPath expression over the JSON of the text, like `action == 'opened'`. A text
    that is not JSON is `{"text": ...}`."""

    @cached_property
    def compiled(self) -> Expression:
        return compile_expression(self.expression)


@block("json_match", JsonMatchArgs)
def json_match(call: Call, args: JsonMatchArgs) -> Message | None:
    """Return the message unchanged, with the agent as its sender. If the value is false, null, or
    an empty text, list or object, publish nothing."""
    value = args.compiled.evaluate(read_json(call.message), call.limits.message_bytes)
    is_false = value is None or value is False or value in ("", [], {})
    return None if is_false else call.message.under(call.agent.name)
