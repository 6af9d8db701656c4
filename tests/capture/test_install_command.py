"""`memrelay capture install`, `uninstall` and `status`: where turns go, and with which key."""

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from memrelay import open_store
from memrelay.capture.configuration import Paths, find_paths, load
from memrelay.capture.spool import Spool
from tests.support.capture import make_event
from tests.support.child import CHECKOUT
from tests.support.http import ask
from tests.support.program import Completed, Program
from tests.support.waiting import wait_for

SAMPLE = CHECKOUT / "memrelay/pipelines/conversation.json"
UID = "talks"
KEY = re.compile(r"mr_[0-9a-f]{12}_[0-9a-f]{64}")
# No server listens here.
NOWHERE = "http://127.0.0.1:9"


class User:
    """A user with an empty home, who calls `memrelay capture`."""

    def __init__(self, program: Program, home: Path) -> None:
        self._program, self.home = program, home
        self.paths: Paths = find_paths({}, home)

    def run(self, *words: str | Path, stdin: bytes = b"") -> Completed:
        """Run a command of the group, for a program on any port."""
        environment = {"HOME": str(self.home), "MEMRELAY_WEB__PORT": self.port}
        return self._program.run("capture", *words, stdin=stdin, **environment)

    @property
    def port(self) -> str:
        """The port of the web server, that of NOWHERE if none runs."""
        found = re.findall(r"http://127\.0\.0\.1:(\d+)", self._program.output)
        return found[-1] if found else "9"


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    """Yield a running program with a pipeline for turns, without keys at first."""
    with Program() as program:
        program.up()
        assert program.run("deploy", SAMPLE, "--uid", UID).code == 0
        yield program


@pytest.fixture
def user(program: Program, tmp_path: Path) -> User:
    """Return a user of the running program."""
    return User(program, tmp_path)


@pytest.fixture
def user_alone(tmp_path: Path) -> Iterator[User]:
    """Yield a user of a machine on which nothing is stored."""
    with Program() as program:
        yield User(program, tmp_path)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_one_command_finds_the_server_and_its_pipeline_for_turns(user: User) -> None:
    ended = user.run("install", "claude-code")

    assert ended.code == 0, ended.err
    assert ended.lines[0] | {"settings": "", "hook": ""} == {
        "tool": "claude-code",
        "settings": "",
        "changed": True,
        "backup": None,
        "hook": "",
        "url": f"http://127.0.0.1:{user.port}",
        "file": "",
        "pipeline": UID,
        "store": f"instances/{UID}/conversation",
        "user": load(user.paths).user,
        "ignore": [],
        "tool_results": False,
        "key": None,
    }
    assert "no key exists, so the server accepts every program" in ended.err
    assert str(user.paths.hook) in (user.home / ".claude/settings.json").read_text()
    for path in (user.paths.configuration, user.paths.hook, user.paths.patterns):
        assert mode_of(path) == 0o600
    assert mode_of(user.paths.config) == 0o700
    assert Path(load(user.paths).python).is_absolute()
    shown = user.run("status").lines[0]
    assert (shown["reached"], shown["waiting"], shown["last_delivery"]) == ("ok", 0, None)
    assert [one["tool"] for one in shown["tools"] if one["installed"]] == ["claude-code"]


def test_choices_stay_until_an_option_changes_them(user: User) -> None:
    file = user.home / "turns.db"
    options = ("--file", file, "--user", "ada", "--ignore", "secret/", "--tool-results")
    assert user.run("install", "codex", *options).code == 0
    first = load(user.paths)

    second = user.run("install", "cursor", "--no-tool-results").lines[0]

    assert (first.file, first.user, first.ignore) == (str(file), "ada", ("secret/",))
    assert (second["file"], second["user"], second["ignore"]) == (str(file), "ada", ["secret/"])
    assert (first.tool_results, second["tool_results"]) == (True, False)
    assert file.is_file() and not user.paths.key.exists()


def test_the_last_removal_leaves_nothing(user: User) -> None:
    for tool in ("codex", "opencode"):
        assert user.run("install", tool, "--file", user.home / "turns.db").code == 0

    first = user.run("uninstall", "codex")

    assert first.lines[0]["restored"] and user.paths.hook.exists()
    assert user.run("uninstall", "opencode").lines[0]["restored"]
    assert not user.paths.config.exists()
    assert user.run("uninstall", "opencode").lines[0]["changed"] is False


def test_without_a_pipeline_for_turns_the_sample_is_named(user_alone: User) -> None:
    nothing = user_alone.run("install", "codex")
    user_alone._program.run("deploy", CHECKOUT / "memrelay/pipelines/notes.json", "--uid", "notes")
    no_turns = user_alone.run("install", "codex")

    assert (nothing.code, no_turns.code) == (1, 1)
    assert "memrelay up" in nothing.err and "--file" in nothing.err
    assert "memrelay deploy" in no_turns.err and "coding_memory.json" in no_turns.err
    assert "--pipeline" in no_turns.err
    assert not user_alone.paths.config.exists() and not (user_alone.home / ".codex").exists()
    named = user_alone.run("install", "codex", "--pipeline", "notes")
    assert named.code == 0 and "does not answer" in named.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("install", "emacs"), "choose one of claude-code, codex"),
        (("install", "codex", "--url", "http://10.1.1.1:1"), "--pipeline UID"),
        (("install", "codex", "--url", "http://localhost:9"), "--pipeline UID"),
        (("install", "codex", "--url", "http://localhost:x"), "invalid port"),
        (("install", "codex", "--file", "x", "--pipeline", "y"), "either --file, or a server"),
        (("install", "codex", "--pipeline", "nobody"), "no pipeline 'nobody'"),
        (("install", "codex", "--store", "instances/other/x"), "Nothing was changed"),
    ],
)
def test_a_wrong_choice_changes_nothing(user: User, words: tuple[str, ...], reason: str) -> None:
    ended = user.run(*words)

    assert ended.code == 1 and reason in ended.err, ended
    assert not user.paths.config.exists() and not (user.home / ".codex").exists()


def test_invalid_settings_are_named_before_anything_is_written(user: User) -> None:
    settings = user.home / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text('{\n"hooks": {,}\n}')

    ended = user.run("install", "claude-code")

    assert ended.code == 1 and f"{settings}:2: expected a name" in ended.err
    assert not user.paths.config.exists()
    shown = user.run("status").lines[0]
    assert ":2: " in shown["tools"][0]["problem"]


def test_events_wait_for_a_server_that_is_down(user: User) -> None:
    ended = user.run("install", "codex", "--pipeline", UID, "--url", NOWHERE)

    shown = user.run("status").lines[0]

    assert ended.code == 0 and "turns wait until it does" in ended.err
    assert "refused" in shown["reached"].lower()
    user.paths.spool.mkdir(parents=True)
    (user.paths.spool / "1").write_text(json.dumps({"text": "tea"}) + "\n")
    (user.paths.state / "dropped").write_text("3")
    user.paths.log.write_text("2026-11-29T09:00:00 sender the server answered 500\n")
    shown = user.run("status").lines[0]
    assert (shown["waiting"], shown["spool_bytes"], shown["dropped"]) == (1, 16, 3)
    assert shown["last_problem"].endswith("answered 500")


def test_turns_that_wait_go_to_the_target_of_the_next_installation(user: User) -> None:
    assert user.run("install", "codex", "--pipeline", UID, "--url", NOWHERE).code == 0
    events = [make_event(n) for n in range(2)]
    user.paths.spool.mkdir(parents=True)
    (user.paths.spool / "1").write_text("".join(json.dumps(one) + "\n" for one in events))
    user.paths.log.write_text("2026-11-29T09:00:00 sender the server answered 401\n")

    removed = user.run("uninstall", "codex")
    file = user.home / "turns.db"
    assert user.run("install", "cursor", "--file", file).code == 0
    wait_for(lambda: not list(user.paths.spool.iterdir()), "the turns are delivered")

    assert removed.lines[0]["waiting"] == 2
    assert f"2 turns not delivered: they stay in {user.paths.spool}" in removed.err
    shown = user.run("status").lines[0]
    assert (shown["waiting"], shown["last_problem"]) == (0, None)
    wait_for(lambda: not Spool(user.paths).state().is_sending, "the sender ended")
    with open_store(file) as store:
        turns = store.turns.list(thread="capture/claude-code/session-1").items
    assert [one.content for one in turns] == ["Text 0", "Text 1"]
    assert user.run("uninstall", "cursor").lines[0]["waiting"] == 0


def test_a_server_with_keys_gets_one_for_this_pipeline_alone(program: Program, user: User) -> None:
    other = program.run("keys", "create", "ops", "--scope", "publish", "--pipeline", "*").out
    url = f"http://127.0.0.1:{user.port}"
    wait_for(lambda: ask(url, "GET", "/v1/pipelines").status == 401, "the server requires keys")

    ended = user.run("install", "gemini-cli")

    assert ended.code == 0, ended.err
    text = user.paths.key.read_text().strip()
    assert KEY.fullmatch(text) and mode_of(user.paths.key) == 0o600
    assert text[16:] not in ended.out + ended.err + user.paths.configuration.read_text()
    keys = {key["id"]: key for key in program.run("keys", "ls").lines}
    assert keys[text[3:15]]["scopes"] == ["search", "write"]
    assert keys[text[3:15]]["pipelines"] == [UID]
    assert user.run("install", "codex", "--pipeline", UID).code == 0
    assert user.paths.key.read_text().strip() == text
    assert user.run("status").lines[0]["reached"] == "ok"
    # A key of another is taken, and is not revoked at the end.
    given = program.run("keys", "create", "me", "--scope", "write,search", "--pipeline", UID).out
    assert user.run("install", "codex", "--key-file", "-", stdin=given.encode()).code == 0
    refused = user.run("install", "codex", "--key-file", "-", stdin=other.encode())
    assert refused.code == 1 and "--key-file" in refused.err
    assert user.paths.key.read_text() == given
    user.run("uninstall", "codex")
    assert "stays valid" in user.run("uninstall", "gemini-cli").err


def test_a_second_installation_makes_the_key_that_the_server_then_needs(
    program: Program, user: User
) -> None:
    program.run("keys", "create", "ops", "--scope", "admin", "--pipeline", "*")
    assert user.run("install", "codex").code == 0
    user.paths.key.unlink()

    ended = user.run("install", "codex")

    assert ended.code == 0 and KEY.fullmatch(user.paths.key.read_text().strip())
    # Another server on this machine is not that of this folder, and does not get its key.
    for url in ("http://127.0.0.2:9", "http://localhost:9"):
        assert user.run("install", "codex").code == 0 and user.paths.key.exists()
        moved = user.run("install", "codex", "--url", url, "--pipeline", UID)
        assert moved.code == 0 and not user.paths.key.exists()
        assert (moved.lines[0]["url"], moved.lines[0]["key"]) == (url, None)
        assert "does not answer" in moved.err
        user.run("uninstall", "codex")


def test_an_invalid_configuration_of_codex_changes_nothing(user: User) -> None:
    config = user.home / ".codex/config.toml"
    config.parent.mkdir()
    config.write_text('model = "x"\nmodel =\n')

    ended = user.run("install", "codex", "--file", user.home / "turns.db")

    assert ended.code == 1 and f"{config}: " in ended.err and "line 2" in ended.err
    assert list(config.parent.iterdir()) == [config] and not user.paths.config.exists()


def test_the_own_key_is_revoked_with_the_last_tool(program: Program, user: User) -> None:
    program.run("keys", "create", "ops", "--scope", "admin", "--pipeline", "*")
    assert user.run("install", "codex").code == 0
    ident = user.paths.key.read_text()[3:15]

    user.run("uninstall", "codex")

    keys = {key["id"]: key for key in program.run("keys", "ls").lines}
    assert not keys[ident]["in_force"] and not user.paths.key.exists()
