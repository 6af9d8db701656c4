"""The JSON Schema of a file of golden questions:
`python -m memrelay.questions.schema > docs/questions.schema.json`.
"""

import sys

import orjson

from memrelay.questions.model import QuestionFile


def rendered() -> bytes:
    """Return the contents of docs/questions.schema.json (draft 2020-12)."""
    schema = QuestionFile.model_json_schema()
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Memrelay golden questions",
    }
    return orjson.dumps(schema | head, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


if __name__ == "__main__":
    sys.stdout.buffer.write(rendered())
