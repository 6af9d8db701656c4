"""template: publish a text that a Jinja template makes of the JSON of a message."""

from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator, Field

from memrelay.blocks.contract import BlockArgs, Call
from memrelay.blocks.json_values import read_json
from memrelay.blocks.registry import block
from memrelay.blocks.templates import MAX_SOURCE, JsonTemplate
from memrelay.bus.message import Message


def _check(source: str) -> str:
    JsonTemplate(source)
    return source


class TemplateArgs(BlockArgs):
    """The template."""

    template: Annotated[
        str,
        AfterValidator(_check),
        Field(json_schema_extra={"maxLength": MAX_SOURCE, "format": "template"}),
    ]
    """A Jinja template with the fields of the JSON as tokens, like
    `{{ sender.login }}: {{ issue.title | truncate(80) }}`, and without statements. A missing field
    and null are empty. JSON that is no object is `{{ value }}`; a text that is not JSON is
    `{{ text }}`."""

    @cached_property
    def compiled(self) -> JsonTemplate:
        return JsonTemplate(self.template)


@block("template", TemplateArgs)
def template(call: Call, args: TemplateArgs) -> Message:
    """Return the text. Objects, lists, numbers and flags in it are JSON."""
    return call.reply(args.compiled.render(read_json(call.message)))
