"""The project and branch of a folder, and answers from transcripts."""

import json
import subprocess
from pathlib import Path

import pytest

from memrelay.capture.hook import MAX_TRANSCRIPT, Place, find_answer, name_remote

REMOTES = {
    "https://github.com/team/app.git": "github.com/team/app",
    "https://ada:tok3n@GitHub.com/team/app": "github.com/team/app",
    "git@github.com:team/app.git": "github.com/team/app",
    "ssh://git@git.example.com:2222/team/app.git": "git.example.com/team/app",
    "git://git.example.com/app.git/": "git.example.com/app",
    "https://git.example.com/app.git?token=tok3n": "git.example.com/app",
    "file:///srv/git/app.git": "/srv/git/app",
    "/srv/git/app.git": "/srv/git/app",
}


@pytest.mark.parametrize(("url", "name"), list(REMOTES.items()))
def test_a_project_has_the_name_of_its_remote(url: str, name: str) -> None:
    assert name_remote(url) == name


def git(folder: Path, *arguments: str) -> None:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def test_a_worktree_has_the_project_of_its_repository(tmp_path: Path) -> None:
    repository, tree = tmp_path / "app", tmp_path / "tree"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "main")
    git(repository, "remote", "add", "origin", "git@git.example.com:team/app.git")
    git(repository, "commit", "-q", "--allow-empty", "-m", "First")
    git(repository, "worktree", "add", "-b", "fix/one", str(tree))
    (tree / "src").mkdir()

    main, other = Place(str(repository)), Place(str(tree / "src"))

    assert (main.project, main.branch) == ("git.example.com/team/app", "main")
    assert (other.project, other.branch) == ("git.example.com/team/app", "fix/one")
    assert other.root == str(tree)


def test_without_a_remote_the_folder_is_the_project(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    git(tmp_path, "init", "-q", "-b", "main", "app")
    git(tmp_path / "app", "commit", "-q", "--allow-empty", "-m", "First")
    git(tmp_path / "app", "checkout", "-q", "--detach")

    assert Place(str(tmp_path / "app")).project == str(tmp_path / "app")
    assert len(Place(str(tmp_path / "app")).branch) == 12
    assert (Place(str(tmp_path / "plain")).project, Place(str(tmp_path / "plain")).branch) == (
        str(tmp_path / "plain"),
        "",
    )


def claude(role: str, text: str) -> bytes:
    message = {"role": role, "content": [{"type": "text", "text": text}]}
    return json.dumps({"type": role, "message": message}).encode() + b"\n"


def test_an_answer_is_in_the_tail_of_a_long_transcript(tmp_path: Path) -> None:
    transcript = tmp_path / "transcript.jsonl"
    result = json.dumps({"type": "user", "message": {"content": [{"type": "tool_result"}]}})
    lines = [
        claude("user", "x" * MAX_TRANSCRIPT),
        claude("user", "Why?"),
        claude("assistant", "So"),
    ]
    transcript.write_bytes(b"".join(lines) + result.encode() + b"\n{torn")

    assert find_answer({"transcript_path": str(transcript)}) == "So"


def test_the_answer_of_an_earlier_prompt_does_not_count(tmp_path: Path) -> None:
    transcript = tmp_path / "transcript.jsonl"
    transcript.write_bytes(claude("assistant", "Earlier") + claude("user", "And now?"))

    assert find_answer({"transcript_path": str(transcript)}) == ""
    assert find_answer({"transcript_path": str(tmp_path)}) == ""
    assert find_answer({"transcript_path": str(tmp_path / "none")}) == ""
