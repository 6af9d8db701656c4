"""The hook in the settings of coding tools: merged, backed up, idempotent, and removed again."""

import json
import os
import stat
from pathlib import Path

import pytest

from memrelay.capture.configuration import find_paths
from memrelay.capture.hook import EVENTS
from memrelay.capture.installation import CannotChange, Installation, make_command
from memrelay.capture.tools import TOOLS, Tool
from memrelay.capture.tools.json_text import insert, parse, remove

NAMES = tuple(TOOLS)
WITH_JSON = tuple(name for name in NAMES if name != "opencode")
LENIENT = ("gemini-cli", "cursor")
STRICT_TEXT = """{
    "model": "large",
    "hooks": {
        "Stop": [ {"hooks": [{"type": "command", "command": "say done"}]} ],
        "stop": [ {"command": "say done"} ]
    },
    "list": [1, 2,
             3]
}
"""
LENIENT_TEXT = """// My settings
{
  "theme": "dark", // at night
  /* hooks of the team */
  "hooks": {
    "AfterAgent": [], // none yet
  }, // the end
}
"""


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    """Return the installation of a user with an empty home."""
    return Installation(find_paths({}, tmp_path), {}, tmp_path)


def put(installation: Installation, tool: Tool, text: str) -> Path:
    settings = installation.find_settings(tool)
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_bytes(text.encode())
    return settings


def commands_of(settings: Path) -> list[str]:
    """Return all commands in a file of settings, in the order of the text."""

    def walk(value: object) -> list[str]:
        if isinstance(value, list):
            return [command for one in value for command in walk(one)]
        if not isinstance(value, dict):
            return []
        own = [str(value["command"])] if "command" in value else []
        return own + [command for one in value.values() for command in walk(one)]

    return walk(parse(settings.read_text(), lenient=True).value)


@pytest.mark.parametrize("name", NAMES)
def test_a_new_file_is_made_and_deleted_again(installation: Installation, name: str) -> None:
    change = installation.install(TOOLS[name])

    assert change.changed and change.backup is None
    assert installation.is_installed(TOOLS[name])
    assert "memrelay/capture/hook.py" in change.settings.read_text()
    assert stat.S_IMODE(change.settings.stat().st_mode) == 0o600
    assert installation.uninstall(TOOLS[name]).restored
    assert not change.settings.exists()
    assert not installation.is_installed(TOOLS[name])


@pytest.mark.parametrize("name", NAMES)
def test_a_second_installation_changes_nothing(installation: Installation, name: str) -> None:
    first = installation.install(TOOLS[name])
    before = first.settings.read_bytes()

    second = installation.install(TOOLS[name])

    assert not second.changed
    assert first.settings.read_bytes() == before
    assert installation.list_installed() == [name]


@pytest.mark.parametrize("name", WITH_JSON)
@pytest.mark.parametrize("text", [STRICT_TEXT, STRICT_TEXT.replace("\n", "\r\n"), '{"a": 1}', ""])
def test_settings_are_merged_and_their_bytes_restored(
    installation: Installation, name: str, text: str
) -> None:
    settings = put(installation, TOOLS[name], text)
    settings.chmod(0o640)

    change = installation.install(TOOLS[name])

    merged = json.loads(settings.read_bytes())
    before = json.loads(text or "{}")
    assert merged | before | {"hooks": 0} == merged | {"hooks": 0}
    ours = [one for one in commands_of(settings) if "memrelay" in one]
    hook = find_paths({}, settings.parents[1]).hook
    assert ours == [make_command(hook, name)] * len(TOOLS[name].events)  # type: ignore[attr-defined]
    assert commands_of(settings).count("say done") == 2 * bool("done" in text)
    assert change.backup is not None and change.backup.read_bytes() == text.encode()
    assert stat.S_IMODE(change.backup.stat().st_mode) == 0o600
    assert stat.S_IMODE(settings.stat().st_mode) == 0o640
    assert installation.uninstall(TOOLS[name]).restored
    assert settings.read_bytes() == text.encode()


@pytest.mark.parametrize("name", LENIENT)
def test_comments_and_trailing_commas_stay(installation: Installation, name: str) -> None:
    settings = put(installation, TOOLS[name], LENIENT_TEXT)

    installation.install(TOOLS[name])

    text = settings.read_text()
    for comment in ("// My settings", '"dark", // at night', "/* hooks of the team */", "// none"):
        assert comment in text
    parse(text, lenient=True)
    settings.write_text(text.replace("dark", "light"))
    assert not installation.uninstall(TOOLS[name]).restored
    left = settings.read_text()
    assert parse(left, lenient=True).value["theme"] == "light"
    assert "// My settings" in left and "memrelay" not in left


@pytest.mark.parametrize("name", WITH_JSON)
def test_later_changes_of_the_user_stay(installation: Installation, name: str) -> None:
    settings = put(installation, TOOLS[name], STRICT_TEXT)
    installation.install(TOOLS[name])
    settings.write_text(settings.read_text().replace('"large"', '"small"'))

    # The second installation takes the changed file as the one to return to.
    installation.install(TOOLS[name])
    change = installation.uninstall(TOOLS[name])

    value = json.loads(settings.read_bytes())
    # Cursor needs the version of its file.
    value.pop("version", None)
    assert value == json.loads(STRICT_TEXT.replace('"large"', '"small"'))
    assert change.restored


def test_another_command_in_a_group_stays(installation: Installation) -> None:
    tool = TOOLS["claude-code"]
    settings = installation.install(tool).settings
    value = json.loads(settings.read_bytes())
    value["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "say done"})
    settings.write_text(json.dumps(value))

    installation.uninstall(tool)

    assert json.loads(settings.read_bytes()) == {
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}
    }


@pytest.mark.parametrize("name", WITH_JSON)
@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('{"a": 1,\n "b": }\n', 2, "expected a value"),
        ('{"a": 1\n "b": 2}', 2, "or a comma"),
        ('{\n"a": "x\n"}', 2, "expected a value"),
        ("[1]", 1, "must hold a JSON object"),
        ('{\n"hooks": []}', 2, "must be an object of events"),
        ('{"a": 1}\n\n{}', 3, "text follows"),
        ("[" * 200, 1, "flatten"),
    ],
)
def test_invalid_settings_stay_and_the_line_is_named(
    installation: Installation, name: str, text: str, line: int, words: str
) -> None:
    settings = put(installation, TOOLS[name], text)

    with pytest.raises(CannotChange, match=words) as caught:
        installation.install(TOOLS[name])

    assert f"{settings}:{line}: " in str(caught.value)
    assert "Nothing was changed" in str(caught.value)
    assert settings.read_text() == text
    assert not installation.list_installed()


@pytest.mark.parametrize("name", ["claude-code", "codex"])
@pytest.mark.parametrize("text", ['{"a": 1} // note', '{"a": 1,}'])
def test_a_tool_of_strict_json_refuses_comments(
    installation: Installation, name: str, text: str
) -> None:
    put(installation, TOOLS[name], text)

    with pytest.raises(CannotChange, match=":1: "):
        installation.check(TOOLS[name])


def test_an_event_that_is_no_list_is_named(installation: Installation) -> None:
    put(installation, TOOLS["claude-code"], '{"hooks": {\n"Stop": {}}}')

    with pytest.raises(CannotChange, match=r':2: "hooks\.Stop" must be a list'):
        installation.install(TOOLS["claude-code"])


@pytest.mark.parametrize(
    ("name", "environ", "path"),
    [
        ("claude-code", {}, ".claude/settings.json"),
        ("claude-code", {"CLAUDE_CONFIG_DIR": "{home}/c"}, "c/settings.json"),
        ("codex", {}, ".codex/hooks.json"),
        ("codex", {"CODEX_HOME": "{home}/c"}, "c/hooks.json"),
        ("gemini-cli", {}, ".gemini/settings.json"),
        ("gemini-cli", {"GEMINI_CLI_HOME": "{home}/g"}, "g/.gemini/settings.json"),
        ("cursor", {}, ".cursor/hooks.json"),
        ("opencode", {}, ".config/opencode/plugin/memrelay.js"),
        ("opencode", {"XDG_CONFIG_HOME": "{home}/x"}, "x/opencode/plugin/memrelay.js"),
        ("opencode", {"OPENCODE_CONFIG_DIR": "{home}/o"}, "o/plugin/memrelay.js"),
    ],
)
def test_variables_move_the_settings(
    tmp_path: Path, name: str, environ: dict[str, str], path: str
) -> None:
    variables = {key: value.format(home=tmp_path) for key, value in environ.items()}

    found = TOOLS[name].find_settings(variables, tmp_path)

    assert found == tmp_path / path


def test_a_link_to_settings_stays_a_link(installation: Installation, tmp_path: Path) -> None:
    tool = TOOLS["claude-code"]
    target = tmp_path / "dotfiles.json"
    target.write_text("{}")
    settings = installation.find_settings(tool)
    settings.parent.mkdir()
    settings.symlink_to(target)

    installation.install(tool)

    assert settings.is_symlink() and "memrelay" in target.read_text()
    installation.uninstall(tool)
    assert settings.is_symlink() and target.read_text() == "{}"


def test_another_plugin_of_the_same_name_stays(installation: Installation) -> None:
    settings = put(installation, TOOLS["opencode"], "export const Mine = () => ({})")

    with pytest.raises(CannotChange, match="not that of Memrelay"):
        installation.install(TOOLS["opencode"])

    assert "Mine" in settings.read_text()


def test_switched_off_hooks_are_noted(installation: Installation) -> None:
    for name, text, words in (
        ("claude-code", '{"disableAllHooks": true}', "disableAllHooks = true"),
        ("gemini-cli", '{"hooksConfig": {"enabled": false}}', "hooksConfig.enabled = false"),
    ):
        settings = put(installation, TOOLS[name], text)
        assert any(words in note for note in TOOLS[name].list_notes(settings))
    change = installation.install(TOOLS["codex"])
    assert any("/hooks" in note for note in TOOLS["codex"].list_notes(change.settings))
    change.settings.with_name("config.toml").write_text("[features]\nhooks = false\n")
    assert "features.hooks" in TOOLS["codex"].list_notes(change.settings)[0]


def test_the_steps_before_the_first_session_are_noted(installation: Installation) -> None:
    notes = {
        tool.name: tool.list_notes(installation.install(tool).settings) for tool in TOOLS.values()
    }

    assert notes["claude-code"] == notes["gemini-cli"] == []
    assert [one.partition(":")[0] for one in notes["cursor"]] == ["restart Cursor"]
    assert "npm" in notes["opencode"][0] and "/hooks" in notes["codex"][0]


def test_elements_are_inserted_and_removed_one_by_one() -> None:
    text = '{"a": [], "b": {}}'
    for count in range(3):
        root = parse(text)
        text = insert(text, root.members[0].node, {"n": count})
    assert json.loads(text) == {"a": [{"n": 0}, {"n": 1}, {"n": 2}], "b": {}}
    for index in (1, 1, 0):
        text = remove(text, parse(text).members[0].node, index)
    assert text == '{"a": [], "b": {}}'


def test_a_path_with_spaces_is_quoted() -> None:
    command = make_command(Path("/home/ann lee/memrelay/capture/hook.py"), "codex")

    assert command == "python3 -I -S '/home/ann lee/memrelay/capture/hook.py' codex"
    assert os.path.isabs(command.split("'")[1])


@pytest.mark.parametrize("name", WITH_JSON)
def test_the_recorded_events_of_a_tool_are_registered(
    installation: Installation, name: str
) -> None:
    recorded = (Path(__file__).parent / f"payloads/{name}.jsonl").read_text().splitlines()
    events = {json.loads(line)["hook_event_name"] for line in recorded}

    settings = installation.install(TOOLS[name]).settings

    registered = json.loads(settings.read_bytes())["hooks"].keys()
    assert events & EVENTS.keys() <= registered <= EVENTS.keys()
