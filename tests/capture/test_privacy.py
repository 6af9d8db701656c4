"""Secrets, keys and ignored files never reach the disk, not even the spool."""

import itertools
import json
import os
import re
import subprocess
from pathlib import Path
from random import Random

import pytest

from memrelay.capture.hook import Folders, Ignored, Place, list_files, redact
from memrelay.capture.secret_patterns import list_patterns
from memrelay.memory.models.policies.patterns import compile_find
from memrelay.memory.models.policies.patterns.catalog import SECRETS, SETS
from tests.support.canaries import make_canary
from tests.support.capture import CaptureHome, Json, make_prompt, make_result

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nBw4r\n-----END RSA PRIVATE KEY-----"
NAMES = [one.name for one in SETS[SECRETS]]


@pytest.fixture
def folders(home: CaptureHome) -> Folders:
    return Folders(str(home.paths.config), str(home.paths.state))


def test_secrets_are_removed_before_anything_is_written(home: CaptureHome) -> None:
    project = home.project
    home.prompt(f"Use {KEY} for the release, and\n{PEM}\nfor ssh")
    home.run_hook("claude-code", make_result(project, {"file_path": "a.txt"}, f"key={KEY}\\n"))
    answer = make_prompt(project, "") | {"hook_event_name": "Stop", "last_assistant_message": KEY}
    home.run_hook("claude-code", answer)

    prompt, result, answered = (one["text"] for one in home.spooled())
    assert (
        prompt == "Use [github_token removed] for the release, and\n[private_key removed]\nfor ssh"
    )
    assert result == "Read exit 0\nkey=[github_token removed]\\n"
    assert answered == "[github_token removed]"
    written = home.all_bytes()
    assert KEY.encode() not in written and b"MIIEow" not in written


def test_a_secret_at_a_cut_leaves_no_part(home: CaptureHome) -> None:
    for length in (150, 165, 180, 190, 199):
        result = make_result(home.project, {"file_path": "a"}, f"{'x' * length} {KEY}")
        home.run_hook("claude-code", result)

    assert KEY[:8].encode() not in home.all_bytes()


def test_the_hook_finds_what_policies_find(folders: Folders) -> None:
    finder = compile_find(SECRETS)
    for name, seed in itertools.product(NAMES, range(3)):
        canary = make_canary(name, Random(seed))
        for text in (canary.text, f"first\n{canary.text}\nlast", json.dumps({"a": canary.text})):
            redacted = redact(folders, text)
            assert canary.value not in redacted, text
            assert not finder.find(redacted), redacted


def test_ordinary_texts_stay_as_they_are(folders: Folders) -> None:
    texts = Path(__file__).read_text(), Path(redact.__code__.co_filename).read_text()
    clean = [text for text in texts if not compile_find(SECRETS).find(text)]

    assert clean
    assert [redact(folders, text) for text in clean] == clean


def test_each_match_has_a_literal() -> None:
    for pattern in list_patterns():
        for seed in range(5):
            text = make_canary(pattern["name"], Random(seed)).text
            searched = text.lower() if pattern["folds"] else text
            if re.search(pattern["source"], text, re.ASCII):
                assert any(one in searched for one in pattern["literals"]), pattern["name"]


HIDDEN: tuple[Json, ...] = (
    {"file_path": "{folder}/.env"},
    {"file_path": ".env.production"},
    {"path": "certs/server.pem"},
    {"command": "cat ~/.ssh/id_ed25519"},
    {"command": "set -a; source ./.env && npm start"},
    {"command": ["bash", "-lc", "cat 'config/.env.local'"]},
    {"command": "*** Begin Patch\n*** Update File: .env\n+KEY=1"},
    {"filePath": "{folder}/build/out.txt"},
    {"file_path": "notes/private/a.md"},
    {"file_path": "/etc/secret-place/a"},
    {"command": "cat .git/config"},
    {"pattern": "KEY", "glob": ".env*"},
    {"paths": ["src/main.py", ".env"]},
    {"include": [".env"]},
    {"files": [{"path": "prod.env"}]},
    {"file_paths": ["id_rsa"]},
    {"uri": "file://{folder}/%2Eenv"},
    {"uri": "{folder}/.env"},
    {"chars": "cat .env\n"},
    {"command": "cat", "args": ["-n", ".env"]},
    {"command": "curl -d @.env localhost"},
    {"command": "cat {.env,README.md}"},
    {"command": "cat .en*"},
    {"command": "cat .e?v"},
    {"command": "cat *.pe?"},
    {"command": "cat [.]env .env.*"},
    {"command": "cat ~/.ss*/config"},
    {"command": "cat src/secret-pl*/a"},
)
SHOWN: tuple[Json, ...] = (
    {"file_path": "{folder}/src/main.py"},
    {"command": "ls -la src && git status"},
    {"file_path": "{folder}/environment.md"},
    {"file_path": "notes/public.md"},
    {"command": "npm test"},
    {"command": "ls *; wc -l *.py src/**/*.ts tests/test_* .* *.*"},
    {"pattern": "port", "glob": "*.{ts,tsx}"},
    {"include": ["src/*.md"]},
    {"uri": "https://example.com/docs"},
    {"url": "https://example.com", "args": {"depth": 2}},
)


@pytest.mark.parametrize("given", [*HIDDEN, *SHOWN], ids=str)
def test_hidden_files_are_found_in_the_input_of_a_tool(given: Json, home: CaptureHome) -> None:
    (home.project / ".gitignore").write_text("build/\n")
    text = json.dumps(given).replace("{folder}", str(home.project))
    ignored = Ignored(Place(str(home.project)), ["notes/private/", "/etc/secret-place"])

    assert ignored.has_any(list_files(json.loads(text))) == (given in HIDDEN)


@pytest.mark.parametrize("name", [".env", "build/out.txt", "~/.ssh/id_rsa", "config/.en*"])
def test_a_hidden_file_at_the_end_of_a_long_script_is_found(name: str, home: CaptureHome) -> None:
    (home.project / ".gitignore").write_text("build/\n")
    (home.project / "build").mkdir()
    (home.project / "build/out.txt").touch()
    script = " ".join(f"word{n}" for n in range(900))
    ignored = Ignored(Place(str(home.project)), ())

    assert ignored.has_any(list_files({"command": f"{script}; cat {name}"}))
    assert not ignored.has_any(list_files({"command": f"{script}; {script}"}))


def test_an_input_with_too_many_words_or_folders_counts_as_hidden(home: CaptureHome) -> None:
    ignored = Ignored(Place(str(home.project)), ())

    assert ignored.has_any(f"word{n}" for n in range(1001))
    assert ignored.has_any(["a/" * 100_000])


FOUND = """\
src/main.py:1:KEY = read()
./.env:KEY=a
.env:1:KEY=b
config/prod.env:KEY=c
notes.txt:KEY=d
build/out.txt:KEY=e
build: done
.env
KEY: f"""


def test_lines_of_a_search_in_hidden_files_are_removed(home: CaptureHome) -> None:
    (home.project / ".gitignore").write_text("build\nnotes.txt\n")
    (home.project / "build").mkdir()
    for name in ("notes.txt", "build/out.txt"):
        (home.project / name).touch()

    home.install(tool_results=True)
    home.run_hook("claude-code", make_result(home.project, {"command": "grep -r KEY ."}, FOUND))

    (event,) = home.spooled()
    assert event["text"].splitlines() == [
        *("Read exit 0", "src/main.py:1:KEY = read()", "build: done", ".env", "KEY: f")
    ]


def test_results_about_hidden_files_are_not_captured(home: CaptureHome) -> None:
    (home.project / ".gitignore").write_text("build/\n")
    source = home.project / "src"
    for path in ("../.env", "../build/a.txt", "main.py"):
        payload = make_result(source, {"file_path": path}, "content")
        home.run_hook("claude-code", payload | {"tool_use_id": path})

    assert [one["turn"] for one in home.spooled()] == ["main.py"]


def test_nothing_of_an_ignored_folder_is_captured(home: CaptureHome) -> None:
    home.install(ignore=("~/work/app",))

    home.prompt("A prompt in the folder")
    home.prompt("A prompt below", cwd=str(home.project / "src"))
    home.prompt("A prompt elsewhere", cwd=str(home.folder / "work"))

    assert [one["text"] for one in home.spooled()] == ["A prompt elsewhere"]


RULES = """\
*.log
!keep.log
/dist
build/
docs/**/draft*
a?c.txt
[xy]*.bin
**/cache/
temp/*
!temp/kept
# a comment
deep/**
"""
FILES = (
    *("a.log", "keep.log", "sub/keep.log", "sub/b.log", "dist/x", "sub/dist/x", "build/y"),
    *("sub/build/y", "docs/draft.md", "docs/a/b/draft2", "docs/a/final", "abc.txt", "abbc.txt"),
    *("x1.bin", "z1.bin", "sub/cache/q", "cache", "temp/a", "temp/kept", "deep/a/b", "nested/own"),
    *("nested/other", "nested/keep.log", "excluded", "plain"),
)


def test_files_that_git_ignores_are_those_that_git_names(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text(RULES)
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "nested/.gitignore").write_text("own\nkeep.log\n")
    (tmp_path / ".git/info/exclude").write_text("excluded\n")
    listed = subprocess.run(
        ["git", "check-ignore", *FILES],
        cwd=tmp_path,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )
    ignored = Ignored(Place(str(tmp_path)), ())

    assert [name for name in FILES if ignored.has_any([name])] == listed.stdout.decode().split()
