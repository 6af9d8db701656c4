"""Generates the reference in docs/blocks.md: `python -m memrelay.blocks.reference`."""

import re
import sys
from pathlib import Path
from typing import Any

from memrelay.blocks.contract import Block, BlockArgs
from memrelay.blocks.registry import built_in_blocks
from memrelay.memory.field_descriptions import describe_fields

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "blocks.md"
BEGIN = "<!-- from here on: python -m memrelay.blocks.reference -->\n"
END = "<!-- to here -->\n"
TYPES = {
    "string": "text",
    "integer": "number",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "object",
}
SOURCE = re.compile(r" \(seed 000[^()]*\)")  # the origin of a rule, for readers of the code


def rendered() -> str:
    """Return a section for each built-in block, by name."""
    return "\n".join(section(block) for block in built_in_blocks().values())


def fill(page: str) -> str:
    """Return the page with an up-to-date reference."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{rendered()}\n{END}{rest.split(END)[1]}"


def section(block: Block) -> str:
    """Return the section of one block, with a table of its arguments."""
    schema = block.args.model_json_schema()
    descriptions = describe_fields(block.args)
    arguments = [
        _argument(block.args, name, schema) + f"{_line(descriptions.get(name))} |"
        for name in block.args.model_fields
    ]
    table = ["", "| argument | values | default | |", "|---|---|---|---|", *arguments]
    return "\n".join(
        [
            f"### `{block.name}`",
            "",
            describe(block),
            *(table if arguments else []),
            "",
        ]
    )


def describe(block: Block) -> str:
    """Return what the block does and what it answers, from its docstrings."""
    about = SOURCE.sub("", _line(sys.modules[block.args.__module__].__doc__).partition(": ")[2])
    result = f" {_line(block.handle.__doc__)}" if block.handle is not None else ""
    return f"{about[:1].upper()}{about[1:]}{result}"


def _argument(args: type[BlockArgs], name: str, schema: dict[str, Any]) -> str:
    field, about = args.model_fields[name], schema["properties"][name]
    default = "" if about.get("default") in (None, "", [], {}) else _code(about["default"])
    values = _values(about, schema.get("$defs", {}))
    required = "Required. " if field.is_required() else ""
    return f"| `{name}` | {values} | {default} | {required}"


def _values(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Return the values that a schema accepts, in words."""
    if "$ref" in schema:
        return _values(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    if "const" in schema or "enum" in schema:
        return " or ".join(
            _code(value) for value in schema.get("enum", [schema.get("const")]) if value != ""
        )
    if "anyOf" in schema:
        alternatives = [one for one in schema["anyOf"] if one != {"type": "null"}]
        return " or ".join(dict.fromkeys(_values(one, definitions) for one in alternatives))
    return TYPES.get(schema.get("type", ""), "anything")


def _code(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "`" + text.replace("\n", "\\n") + "`"


def _line(text: str | None) -> str:
    """Return a docstring as one line for a table cell."""
    return re.sub(r"\s+", " ", text or "").strip().replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(fill(PAGE.read_text()))
