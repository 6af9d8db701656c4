"""Shell completion: the scripts, and the candidates that shells get."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import orjson
import pytest

from tests.support.bundles import make_agent, make_bundle
from tests.support.program import Program


@pytest.fixture
def program() -> Iterator[Program]:
    with Program() as program:
        yield program


def deploy(program: Program, uid: str, name: str) -> None:
    file = program.folder / f"{uid}.json"
    file.write_bytes(orjson.dumps(make_bundle(uid, make_agent("plus", "add_1"), name=name)))
    assert program.run("deploy", file).code == 0


def complete(program: Program, *lines: tuple[str, ...]) -> list[list[str]]:
    """Return the candidates of bash for the last word of each line."""
    command = program.folder / "bin" / "memrelay"
    command.parent.mkdir(exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m memrelay.cli.main "$@"\n')
    command.chmod(0o755)
    script = ['eval "$(memrelay completion bash)"']
    for words in lines:
        script += [
            f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}",
            '_memrelay_completion memrelay; echo "${COMPREPLY[@]}"',
        ]
    path = f"{command.parent}{os.pathsep}{program.environment.get('PATH', '')}"
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        env=program.environment | {"PATH": path},
        cwd=program.folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stderr == ""
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_options_and_choices(program: Program) -> None:
    offered = {
        ("memrelay", "sen"): ["send"],
        ("memrelay", "send", "x", "y", "--sw"): ["--swarm"],
        ("memrelay", "completion", "z"): ["zsh"],
        ("memrelay", "dlq", "r"): ["replay"],
        ("memrelay", "dlq", "drop", "x", "--a"): ["--all"],
    }

    assert complete(program, *offered) == [*offered.values()]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_pipelines_but_no_name_that_a_shell_would_execute(program: Program) -> None:
    deploy(program, "a1", "tea.party-2")
    deploy(program, "b2", '$(touch pwned)"; `rm`')

    assert complete(
        program,
        ("memrelay", "say", "''"),
        ("memrelay", "tail", "tea"),
        ("memrelay", "dlq", "replay", "tea"),
    ) == [["b2", "tea.party-2"], ["tea.party-2"], ["tea.party-2"]]
    assert not (program.folder / "pwned").exists()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_uids_if_several_pipelines_share_a_name(program: Program) -> None:
    for uid, name in (("a1", "tea"), ("b2", "tea"), ("c3", "mate")):
        deploy(program, uid, name)

    assert complete(program, ("memrelay", "say", "''")) == [["a1", "b2", "mate"]]


@pytest.mark.parametrize("damage", ["nothing", "settings", "catalogue"])
def test_completion_prints_nothing_if_there_are_no_candidates(
    program: Program, damage: str
) -> None:
    if damage == "catalogue":
        program.root.mkdir()
        (program.root / "system.db").write_bytes(b"no database at all" * 100)
    request = {
        "COMP_WORDS": "memrelay rm ",
        "COMP_CWORD": "2",
        "_MEMRELAY_COMPLETE": "complete_bash",
    }

    ended = program.run_process(
        **request | ({"MEMRELAY_NO": "setting"} if damage == "settings" else {})
    )

    assert (ended.out.strip(), ended.err) == ("", "")
    assert program.root.exists() == (damage == "catalogue")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(program: Program, shell: str) -> None:
    ended = program.run("completion", shell)

    assert (ended.code, ended.err) == (0, "")
    assert f"_MEMRELAY_COMPLETE=complete_{shell}" in ended.out
    assert program.run("completion", shell, "--json").lines == [
        {"shell": shell, "script": ended.out.rstrip("\n")}
    ]
