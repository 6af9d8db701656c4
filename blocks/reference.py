"""The reference of the blocks, made from the blocks. `python -m memrelay.blocks.reference` writes it into
docs/blocks.md."""

import re
import sys
from pathlib import Path
from typing import Any

from memrelay.blocks.contract import Block, BlockArgs
from memrelay.blocks.registry import all_blocks

PAGE = Path(__file__).resolve().parent.parent / "docs" / "blocks.md"
BEGIN, END = "<!-- from here on: python -m memrelay.blocks.reference -->\n", "<!-- to here -->\n"
TYPES = {
    "string": "text",
    "integer": "number",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "object",
}
SOURCE = re.compile(r" \(seed 000[^)]*\)")  # where a rule is from: for who reads the code


def rendered() -> str:
    """One heading a block, in the order of the names."""
    return "\n".join(section(block) for block in all_blocks().values())


def fill(page: str) -> str:
    """The page with the reference of today."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{rendered()}\n{END}{rest.split(END)[1]}"


def section(block: Block) -> str:
    """The heading of one block, with its arguments."""
    about = SOURCE.sub("", _line(sys.modules[block.args.__module__].__doc__).partition(": ")[2])
    answer = f" {_line(block.handle.__doc__)}" if block.handle is not None else ""
    schema = block.args.model_json_schema()
    arguments = [_argument(block.args, name, schema) for name in block.args.model_fields]
    table = (
        ["", "| argument | values | default | |", "|---|---|---|---|", *arguments]
        if arguments
        else []
    )
    return "\n".join(
        [f"### `{block.name}`", "", f"{about[:1].upper()}{about[1:]}{answer}", *table, ""]
    )


def _argument(args: type[BlockArgs], name: str, schema: dict[str, Any]) -> str:
    field, about = args.model_fields[name], schema["properties"][name]
    default = "" if about.get("default") in (None, "", [], {}) else _code(about["default"])
    values = _values(about, schema.get("$defs", {}))
    needed = "Needed. " if field.is_required() else ""
    return f"| `{name}` | {values} | {default} | {needed}{_line(field.description)} |"


def _values(schema: dict[str, Any], named: dict[str, Any]) -> str:
    """What a schema takes; `named` are those that it refers to."""
    if "$ref" in schema:
        return _values(named[schema["$ref"].removeprefix("#/$defs/")], named)
    if "const" in schema or "enum" in schema:
        return " or ".join(
            _code(value) for value in schema.get("enum", [schema.get("const")]) if value != ""
        )
    if "anyOf" in schema:
        return " or ".join(
            dict.fromkeys(_values(one, named) for one in schema["anyOf"] if one != {"type": "null"})
        )
    return TYPES.get(schema.get("type", ""), "anything")


def _code(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "`" + text.replace("\n", "\\n") + "`"


def _line(text: str | None) -> str:
    """A docstring on one line, its vertical bars kept from ending a cell."""
    return re.sub(r"\s+", " ", text or "").strip().replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(fill(PAGE.read_text()))
