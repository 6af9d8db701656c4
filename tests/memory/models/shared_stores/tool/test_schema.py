"""The schema of the memory tool, as models see it."""

from jsonschema import Draft202012Validator

from memrelay.memory.models.shared_stores.tool.arguments import COMMANDS, SHARING, tool_schema


def test_every_listed_command_is_described_and_sharing_is_not_listed() -> None:
    command = tool_schema()["properties"]["command"]

    assert command["enum"] == [
        "view",
        "create",
        "edit",
        "delete",
        "rename",
        "search",
        "stores",
    ]
    assert set(COMMANDS) - set(command["enum"]) == set(SHARING)
    assert all(f"- {name}: " in command["description"] for name in command["enum"])


def test_only_the_command_is_required_and_nothing_else_is_allowed() -> None:
    schema = tool_schema()
    Draft202012Validator.check_schema(schema)

    assert (schema["required"], schema["additionalProperties"]) == (["command"], False)
    assert not {"oneOf", "anyOf", "allOf"} & schema.keys()


def test_the_fields_have_the_limits_of_the_model() -> None:
    fields = tool_schema()["properties"]
    valid = Draft202012Validator(tool_schema()).is_valid

    assert set(fields) == {
        "command", "scope", "store", "key", "path", "content", "old_str", "new_str", "query",
    }  # fmt: skip
    assert fields["scope"]["enum"] == ["agent", "user", "chat"]
    assert (fields["store"]["maxLength"], fields["key"]["maxLength"]) == (64, 200)
    assert (fields["path"]["pattern"], fields["path"]["maxLength"]) == (
        "^/memories(/.*)?$",
        256,
    )
    assert valid({"command": "view"}) and not valid({"command": "share"})
