"""Blocks from outside the checkout: an installed distribution and a folder in `blocks.paths`."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memrelay.blocks import sources
from memrelay.blocks.errors import BrokenBlock
from memrelay.blocks.registry import find_block, list_blocks
from tests.support.deferred_calls import Service
from tests.support.sessions import CHECKOUT, fences
from tests.support.waiting import wait_for

PAGE = CHECKOUT / "docs" / "blocks.md"
JOURNAL, JOURNAL_TEST = [
    text for language, text in fences(PAGE) if language == "python" and "journal" in text
]
(WEATHER,) = [
    text for language, text in fences(PAGE) if language == "python" and "async with" in text
]
(PROJECT,) = [text for language, text in fences(PAGE) if language == "toml"]
GREET = '''
"""greet: greets whoever writes."""

from memrelay import BlockArgs, Call, Message, block


class GreetArgs(BlockArgs):
    greeting: str = "Hello"


@block("greet", GreetArgs)
def greet(call: Call, args: GreetArgs) -> Message:
    return call.reply(f"{args.greeting}, {call.text}!")
'''
KEYED = '''
"""keyed: tells the length of its key."""

from memrelay import BlockArgs, Call, Message, SecretReference, block


class KeyedArgs(BlockArgs):
    key: SecretReference


@block("keyed", KeyedArgs)
def keyed(call: Call, args: KeyedArgs) -> Message:
    return call.reply(f"{len(call.secret(args.key))} characters")
'''
MEMRELAY = "import sys; from memrelay.cli.main import main; sys.argv[0] = 'memrelay'; main()"


class Installation:
    """Memrelay with a distribution `journal-block` and a folder with the blocks greet and broken.

    Use it as a context manager: `memrelay up` runs inside.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.blocks = folder, folder / "my_blocks"
        self._log = folder / "log"
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith("MEMRELAY_")
        } | {
            "PYTHONPATH": str(install(folder)),
            "MEMRELAY_MEMORY__ROOT": str(folder / "memory"),
            "MEMRELAY_BUS__DATA": str(folder / "bus"),
            "MEMRELAY_WEB__PORT": "0",
            "MEMRELAY_EMBEDDING__MODEL": "none",
            "MEMRELAY_BLOCKS__PATHS": str(self.blocks),
            "MEMRELAY_AGENTS__SECRETS": "env:GREET_KEY",
            "GREET_KEY": "tea-with-milk",
        }
        self.blocks.mkdir()
        (self.blocks / "greet.py").write_text(GREET)
        (self.blocks / "keyed.py").write_text(KEYED)
        (self.blocks / "weather.py").write_text(WEATHER)
        (self.blocks / "broken.py").write_text(
            "import memrelay\nclass Oops(Exception): ...\nraise Oops\n"
        )
        (self.blocks / "add_1.py").write_text(GREET.replace("greet", "add_1"))

    def __enter__(self) -> "Installation":
        with self._log.open("wb") as log:
            self._up = subprocess.Popen(
                [sys.executable, "-c", MEMRELAY, "up"],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        wait_for(
            lambda: "Press Ctrl-C to stop" in self.log or self._up.poll() is not None,
            "memrelay is up",
        )
        assert self._up.poll() is None, self.log
        return self

    def __exit__(self, *_: object) -> None:
        self._up.terminate()
        self._up.wait(60)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def run(self, *words: str) -> str:
        """Return the output of a command, stdout and stderr."""
        done = subprocess.run(
            [sys.executable, "-c", MEMRELAY, *words],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=60,
        )
        return done.stdout

    def deploy(self, name: str, **args: object) -> str:
        """Deploy a pipeline of one agent, named after its block."""
        agent = {
            "agent_class": "wf_agent",
            "agent_alias": "agent",
            "agent_name": "Agent",
            "agent_rec_swarm": "chat",
            "agent_send_swarm": "results",
            "wf_diagram_webhook": name,
            "wf_publish_results": True,
            "wf_webhook_args": args,
        }
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps({"pipeline_name": name, "agents": [agent]}))
        return self.run("deploy", str(file))


def install(folder: Path) -> Path:
    """Build the project of the page and install it, without network, into a folder."""
    project, target = folder / "project", folder / "packages"
    project.mkdir()
    (project / "journal.py").write_text(JOURNAL)
    (project / "pyproject.toml").write_text(PROJECT)
    options = ["--no-build-isolation", "--no-index", "--no-deps", "--target", str(target)]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", *options, str(project)],
        check=True,
        timeout=120,
    )
    return target


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with Installation(tmp_path_factory.mktemp("installation")) as installation:
        yield installation


def test_the_block_of_a_distribution_reads_and_writes_a_store(installation: Installation) -> None:
    deployed = installation.deploy("journal", memory_id="instances/${pipeline_uid}/notes")

    assert '"served":true' in deployed
    assert '"entries":1' in installation.run("say", "journal", "tea")
    assert '"entries":2' in installation.run("say", "journal", "coffee")


def test_the_block_of_a_folder_runs_in_a_pipeline(installation: Installation) -> None:
    assert '"served":true' in installation.deploy("greet", greeting="Good morning")
    assert "Good morning, Ada!" in installation.run("say", "greet", "Ada")


def test_a_block_gets_a_listed_secret_and_a_bundle_with_another_is_refused(
    installation: Installation,
) -> None:
    refused = installation.deploy("keyed", key="env:HOME")
    unclear = installation.deploy("keyed", key="tea-with-milk")

    assert "agents[0].wf_webhook_args: blocks may not use the secret env:HOME" in refused
    assert "agents.secrets" in refused
    assert "must be env:NAME or file:NAME" in unclear and "tea-with-milk" not in unclear
    assert '"served":true' in installation.deploy("keyed", key="env:GREET_KEY")
    assert "13 characters" in installation.run("say", "keyed", "hello")


def test_an_async_block_of_a_folder_asks_a_service(installation: Installation) -> None:
    with Service(body=b'{"celsius": 21}', kind="application/json") as service:
        installation.deploy("weather", url=service.url)

        assert "Turin: 21 \u00b0C" in installation.run("say", "weather", "Turin")
        assert service.texts == ["Turin"]
    assert "Turin: 21" in installation.run("records", "list", "weather")


def test_a_broken_block_is_refused_with_its_file_line_and_remedy(
    installation: Installation,
) -> None:
    file = installation.blocks / "broken.py"

    refused = installation.deploy("broken")

    assert f'the block "broken" cannot be loaded: {file}, line 3: Oops: ' in refused
    assert f"correct {file}" in refused


def test_a_block_name_that_exists_twice_is_refused_with_both_places(
    installation: Installation,
) -> None:
    refused = installation.deploy("add_1")

    assert "two blocks are named 'add_1'" in refused
    assert f"blocks/add_1.py and {installation.blocks / 'add_1.py'}" in refused


def test_the_command_lists_every_block_with_its_source(installation: Installation) -> None:
    listed = {one["name"]: one for one in map(json.loads, installation.run("blocks").splitlines())}

    assert listed["memory_write"]["source"] == "built in"
    assert listed["journal"]["source"] == "journal-block"
    assert listed["journal"]["summary"] == "store each text and return the number of entries."
    assert listed["greet"]["source"] == str(installation.blocks / "greet.py")
    assert "Oops" in listed["broken"]["fault"]
    assert "two blocks are named" in listed["add_1"]["fault"]


def test_the_test_of_the_block_that_the_page_shows_passes(tmp_path: Path) -> None:
    (tmp_path / "journal.py").write_text(JOURNAL)
    (tmp_path / "test_journal.py").write_text(JOURNAL_TEST)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_a_corrected_file_is_loaded_at_the_next_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_folders", [tmp_path])
    file = tmp_path / "corrected_greet.py"
    file.write_text("def x(:\n")
    with pytest.raises(BrokenBlock, match="line 1: SyntaxError"):
        find_block("corrected_greet")

    file.write_text(GREET.replace("greet", "corrected_greet"))

    assert find_block("corrected_greet") is not None
    assert str(file) in [one.source for one in list_blocks()]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it declares no block 'undeclared_greet'"),
        (GREET, "a block has the name of its file, but undeclared_greet.py declares 'greet'"),
    ],
)
def test_a_file_without_a_block_of_its_name_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, reason: str
) -> None:
    monkeypatch.setattr(sources, "_folders", [tmp_path])
    (tmp_path / "undeclared_greet.py").write_text(text)

    with pytest.raises(BrokenBlock, match=reason):
        find_block("undeclared_greet")
