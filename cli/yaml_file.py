"""A file in YAML, in which no key stands twice at one place: readers of YAML take the last of them
without a word."""

from pathlib import Path
from typing import Any

import yaml


class NotYaml(Exception):
    """Where a file breaks which rule."""


class _Repeated(yaml.constructor.ConstructorError):
    """A key that stands twice."""


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """PyYAML's call."""
        marks: dict[str, yaml.Mark] = {}
        for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
            if (mark := marks.setdefault(key.value, key.start_mark)) is not key.start_mark:
                raise _Repeated(
                    None,
                    None,
                    f"{key.value} stands in line {mark.line + 1} already; put both into one",
                    key.start_mark,
                )
        return super().construct_mapping(node, deep)


def read_yaml(file: Path) -> Any:
    """What it holds, None where that is nothing. Raises OSError and NotYaml."""
    try:
        return yaml.load(file.read_text(encoding="utf-8"), _Loader)
    except (UnicodeError, yaml.YAMLError) as error:
        raise NotYaml(_why(error)) from error


def _why(error: UnicodeError | yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or not error.problem_mark:
        return "not YAML in UTF-8"
    rule = error.problem if isinstance(error, _Repeated) else f"not YAML: {error.problem}"
    return f"line {error.problem_mark.line + 1}: {rule}"
