"""References to secrets: files only in one folder, read off the event loop, once per change."""

import asyncio
import os
from pathlib import Path

import pytest

from memrelay.pipelines.check import check
from memrelay.pipelines.secret_references import (
    FRESH_S,
    MAX_SECRET_BYTES,
    SecretOutsideFolder,
    SecretResolver,
)
from tests.support.bundles import Json, make_bundle, make_memory

OUTSIDE = "the file of a secret must lie in the folder secrets.folder, also after following links"
UNUSABLE = "is not a regular file of at most 64 KiB"


class Clock:
    """A clock that the test sets."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a token, and with files that must not be read."""
    folder = tmp_path / "secrets"
    (folder / "shop").mkdir(parents=True)
    (tmp_path / "outside").write_text("outside")
    (folder / "token").write_text("tea\r\n")
    (folder / "shop" / "token").write_text("milk")
    (folder / "largest").write_text("x" * MAX_SECRET_BYTES)
    (folder / "larger").write_text("x" * (MAX_SECRET_BYTES + 1))
    (folder / "binary").write_bytes(b"\xff")
    (folder / "inner").symlink_to(folder / "shop" / "token")
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "leak").symlink_to(tmp_path / "outside")
    (folder / "loop").symlink_to(folder / "loop")
    os.mkfifo(folder / "pipe")
    return folder


def bundle_with(*references: str) -> Json:
    hooks = [
        make_memory("write", alias=f"a{at}") | {"wf_webhook_token": reference}
        for at, reference in enumerate(references)
    ]
    return make_bundle("shop", *hooks)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("token", "tea"),
        ("./shop//token", "milk"),
        ("{folder}/token", "tea"),
        ("inner", "milk"),
        ("largest", "x" * MAX_SECRET_BYTES),
    ],
)
def test_a_file_in_the_folder_is_read(folder: Path, name: str, value: str) -> None:
    secrets, reference = SecretResolver(folder, {}), f"file:{name.format(folder=folder)}"

    assert secrets.read(reference) == asyncio.run(secrets.resolve(reference)) == value
    assert check(bundle_with(reference), secrets=secrets).faults == ()


def test_the_folder_may_be_a_link(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    secrets = SecretResolver(link, {})

    values = [secrets.read(f"file:{place}/token") for place in (link, folder)]

    assert values == ["tea", "tea"]


@pytest.mark.parametrize(
    "name",
    ["/dev/ptmx", "/etc/passwd", "../outside", "{folder}/../outside", "~/x", ".", "leak", "zero"],
)
def test_a_file_elsewhere_is_a_fault_and_is_not_read(folder: Path, name: str) -> None:
    secrets, reference = SecretResolver(folder, {}), f"file:{name.format(folder=folder)}"

    (fault,) = check(bundle_with(reference), secrets=secrets).faults

    assert (fault.pointer, fault.rule) == ("/agents/0/wf_webhook_token", OUTSIDE)
    with pytest.raises(SecretOutsideFolder):
        secrets.read(reference)
    with pytest.raises(SecretOutsideFolder):
        asyncio.run(secrets.resolve(reference))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("pipe", UNUSABLE),
        ("shop", UNUSABLE),
        ("larger", UNUSABLE),
        ("binary", "is not a file with text in UTF-8"),
        ("absent", "cannot be read: No such file or directory"),
        ("loop", ""),
    ],
)
def test_an_unusable_file_is_a_warning_and_has_no_value(
    folder: Path, name: str, reason: str
) -> None:
    secrets = SecretResolver(folder, {})

    checked = check(bundle_with(f"file:{name}"), secrets=secrets)

    (warning,) = [one for one in checked.warnings if one.pointer.endswith("/wf_webhook_token")]
    assert warning.rule.startswith(f"file:{name} {reason}")
    with pytest.raises(LookupError, match=f"file:{name} {reason}"):
        asyncio.run(secrets.resolve(f"file:{name}"))


def test_a_rejected_bundle_does_not_reveal_which_files_exist(folder: Path) -> None:
    secrets = SecretResolver(folder, {})

    answers = [
        check(bundle_with(f"file:{name}", "file:/elsewhere"), secrets=secrets)
        for name in ("token", "absent", "larger", "leak")
    ]

    assert len({(one.faults, one.warnings) for one in answers}) == 1


def test_a_changed_file_is_read_again_after_a_second(folder: Path) -> None:
    asyncio.run(change_a_file(folder))


async def change_a_file(folder: Path) -> None:
    clock = Clock()
    secrets = SecretResolver(folder, {}, clock=clock)
    values = [await secrets.resolve("file:token")]

    (folder / "token").write_text("coffee")
    values.append(await secrets.resolve("file:token"))
    clock.now_s += FRESH_S
    both = asyncio.gather(secrets.resolve("file:token"), secrets.resolve("file:token"))
    values += await both

    assert values == ["tea", "tea", "coffee", "coffee"]


def test_a_variable_is_read_at_each_use() -> None:
    environ = {"TOKEN": "tea"}
    secrets = SecretResolver(Path("/nowhere"), environ)

    assert asyncio.run(secrets.resolve("env:TOKEN")) == "tea"
    environ.clear()
    with pytest.raises(LookupError, match="env:TOKEN is not set"):
        asyncio.run(secrets.resolve("env:TOKEN"))


@pytest.mark.parametrize(
    ("reference", "is_allowed"),
    [
        ("env:SHOP", True),
        ("env:SHOP_", False),
        ("env:OTHER", False),
        ("file:shop/token", True),
        ("file:{folder}/shop/token", True),
        ("file:shop", False),
        ("file:token", False),
        ("file:shop2/token", False),
        ("file:other/token", False),
        ("file:shop/../other/token", False),
        ("file:/etc/passwd", False),
    ],
)
def test_a_limited_key_may_use_only_the_places_of_its_pipeline(
    folder: Path, reference: str, is_allowed: bool
) -> None:
    secrets = SecretResolver(folder, {}, [("shop", "SHOP"), ("other", "OTHER")])

    assert secrets.may_use("shop", reference.format(folder=folder)) is is_allowed


def test_a_block_reads_only_listed_references_and_sees_a_change(folder: Path) -> None:
    clock = Clock()
    listed = ("file:token", "file:missing", "env:KEY", "file:leak")
    secrets = SecretResolver(folder, {"KEY": "tea", "HOME": "x"}, clock=clock, for_blocks=listed)

    assert secrets.read_for_block("file:token") == secrets.read_for_block("env:KEY") == "tea"
    (folder / "token").write_text("milk")
    clock.now_s += FRESH_S
    assert secrets.read_for_block("file:token") == "milk"
    for reference, reason in (
        ("env:HOME", "env:HOME is not a secret for blocks"),
        ("file:shop/token", "file:shop/token is not a secret for blocks"),
        ("file:missing", "file:missing cannot be read"),
        ("file:leak", "file:leak is outside the folder"),
    ):
        with pytest.raises(LookupError, match=reason):
            secrets.read_for_block(reference)
