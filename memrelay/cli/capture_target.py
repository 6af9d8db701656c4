"""Where captured turns go: a store file, or a pipeline on a server with a key for it."""

import os
import pwd
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import orjson

from memrelay.capture.configuration import Configuration, Paths, read_key
from memrelay.cli.composition import (
    fail,
    find_pipeline,
    make_catalog,
    make_local_url,
    note,
    run,
    run_with_settings,
)
from memrelay.cli.imports import load
from memrelay.cli.settings import Settings
from memrelay.installation import PROGRAM, sample
from memrelay.memory.control.catalog import Catalog, Deployed, catalog_exists
from memrelay.memory.control.key_requests import KeyRequest, create_key
from memrelay.memory.control.keys import FORM
from memrelay.pipelines.check import check

SAMPLE = "coding_memory.json"
# An agent with one of these blocks, or of this kind of records, has a store for turns.
TURN_BLOCKS, TURN = ("extract", "summarize"), "turn"
KEY_NAME, SCOPES = "capture", ("write", "search")
LOOPBACK = ("127.0.0.1", "::1", "localhost")
DEFAULT_PORTS = {"http": 80, "https": 443}
PROBE_TIMEOUT_S = 5.0
# How long a server may not know a new key, and between two attempts.
NEW_KEY_WAIT_S, ASK_AGAIN_S = 3.0, 0.1
MAX_ANSWER_BYTES = 1 << 16
STDIN = "-"


class Options(NamedTuple):
    """The options of the command line; "" and None for those that are not given."""

    url: str
    pipeline: str
    store: str
    user: str
    file: Path | None
    key_file: str
    tool_results: bool | None
    ignore: Sequence[str] | None


def choose(
    options: Options, before: Configuration | None, paths: Paths
) -> tuple[Configuration, str | None]:
    """Return the new configuration, and the key: None for the present one, "" for none."""
    if options.file and (options.url or options.pipeline or options.key_file or options.store):
        fail("give either --file, or a server with --url, --pipeline, --store and --key-file")
    base = before or Configuration(user=pwd.getpwuid(os.getuid()).pw_name)
    chosen = replace(
        base,
        user=options.user or base.user,
        tool_results=base.tool_results if options.tool_results is None else options.tool_results,
        ignore=base.ignore if options.ignore is None else tuple(options.ignore),
        python=sys.executable,
    )
    if options.file:
        file = options.file.expanduser().absolute()
        run_with_settings(lambda settings: _make_file(file))
        return replace(chosen, file=str(file), url="", pipeline="", store=""), ""
    is_asked = bool(options.url or options.pipeline or options.store or options.key_file)
    if chosen.file and not is_asked:
        return chosen, None
    return run(lambda settings: _choose_server(settings, options, chosen, paths, is_asked))


def _make_file(file: Path) -> None:
    with load("memrelay.embedded.store").open_store(file, embedder="none"):
        pass


async def _choose_server(
    settings: Settings, options: Options, chosen: Configuration, paths: Paths, is_asked: bool
) -> tuple[Configuration, str | None]:
    """Return the configuration for a server, and the key as `choose` does.

    Without a choice on the command line, a server of another folder stays.
    """
    url = (options.url or chosen.url or make_local_url(settings)).rstrip("/")
    key = _read_key_file(options.key_file) if options.key_file else None
    has_catalog = catalog_exists(settings.memory.root, settings.storage.url)
    if not has_catalog or _find_origin(url) != _find_origin(make_local_url(settings)):
        return _choose_remote(settings, url, options, chosen, key)
    async with make_catalog(settings) as catalog:
        if chosen.pipeline and not is_asked and await catalog.find(chosen.pipeline) is None:
            return chosen, None
        deployed, store = await _find_target(catalog, options.pipeline or chosen.pipeline)
        if key is None:
            # The key of another server is not kept.
            is_same = _find_origin(chosen.url) == _find_origin(url)
            key = await _make_key(catalog, deployed.uid, read_key(paths) if is_same else "")
    if deployed.uid == chosen.pipeline:
        store = chosen.store or store
    store = options.store or store
    return replace(chosen, url=url, file="", pipeline=deployed.uid, store=store), key


def _choose_remote(
    settings: Settings, url: str, options: Options, chosen: Configuration, key: str | None
) -> tuple[Configuration, str | None]:
    """Return the configuration for a server other than that of this folder."""
    pipeline = options.pipeline or chosen.pipeline
    if not pipeline and not options.url:
        fail(
            f"nothing is stored in {settings.memory.root}: start `{PROGRAM} up` and run this "
            "command in the same folder, or name a server with --url, --pipeline and --key-file, "
            "or a store file with --file"
        )
    if not pipeline:
        fail(f"name the pipeline on {url} with --pipeline UID")
    is_same = url == chosen.url and pipeline == chosen.pipeline
    store = options.store or (chosen.store if is_same else "")
    # No other server gets the present key.
    key = "" if key is None and url != chosen.url else key
    return replace(chosen, url=url, file="", pipeline=pipeline, store=store), key


def _is_local(url: str) -> bool:
    return (urlsplit(url).hostname or "") in LOOPBACK


def _find_origin(url: str) -> tuple[str, int | None]:
    """Return the host and port of a server. All names of this machine are one host."""
    parts = urlsplit(url)
    try:
        port = parts.port or DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        fail(f"{url} has an invalid port; give an address like http://127.0.0.1:8765")
    return LOOPBACK[0] if _is_local(url) else parts.hostname or "", port


def _read_key_file(name: str) -> str:
    text = (sys.stdin if name == STDIN else Path(name).expanduser().open()).read(1000).strip()
    if not text or len(text.split()) > 1:
        fail(f"{'stdin' if name == STDIN else name} must hold one key, like mr_ID_SECRET")
    return text


async def _find_target(catalog: Catalog, name: str) -> tuple[Deployed, str]:
    """Return the pipeline, and its store for turns; "" for its first store."""
    if name:
        deployed = await find_pipeline(catalog, name)
        return deployed, await _find_turn_store(catalog, deployed)
    fitting = [
        (deployed, store)
        for deployed in await catalog.active()
        if (store := await _find_turn_store(catalog, deployed))
    ]
    own = [one for one in fitting if one[0].name == SAMPLE.removesuffix(".json")]
    for few in (fitting, own):
        if len(few) == 1:
            return few[0]
    if not fitting:
        fail(
            f"no pipeline here has a store for turns: deploy the sample with `{PROGRAM} deploy "
            f"{sample(SAMPLE)}` and try again, or name a pipeline with --pipeline"
        )
    names = ", ".join(f"{one.name} ({one.uid})" for one, _ in fitting)
    fail(f"several pipelines have a store for turns; choose one with --pipeline: {names}")


async def _find_turn_store(catalog: Catalog, deployed: Deployed) -> str:
    checked = check(await catalog.source(deployed.hash) or b"", uid=deployed.uid)
    agents = checked.bundle.agents if checked.bundle else ()
    return next(
        (
            one.args.store
            for one in agents
            if one.block.name in TURN_BLOCKS or getattr(one.args, "kind", "") == TURN
        ),
        "",
    )


async def _make_key(catalog: Catalog, uid: str, present: str) -> str | None:
    """Return a new key, None to keep the present one, and "" if the server needs none."""
    now_ms = time.time_ns() // 1_000_000
    keys = {key.id: key for key in await catalog.keys.every()}
    if not keys:
        note(
            "no key exists, so the server accepts every program on this machine; after the first "
            f"`{PROGRAM} keys create`, install again to make a key for capture"
        )
        return ""
    found = FORM.fullmatch(present)
    key = keys.get(found[1]) if found else None
    if key and uid in key.pipelines and key.scopes.issuperset(SCOPES) and not key.fault(now_ms):
        return None
    created = await create_key(catalog, KeyRequest(KEY_NAME, SCOPES, [uid]), now_ms)
    return created.text


def probe(configuration: Configuration, key: str) -> str:
    """Return why the server refuses the key, the pipeline or the store; "" if it accepts them.

    A server that does not answer is only noted: the turns wait for it. It learns of a new key after
    about a second.
    """
    if configuration.file:
        return ""
    status, text = ask(configuration, key)
    until = time.monotonic() + NEW_KEY_WAIT_S
    while status == 401 and key and time.monotonic() < until:
        time.sleep(ASK_AGAIN_S)
        status, text = ask(configuration, key)
    if status == 0:
        note(f"{configuration.url} does not answer ({text}); turns wait until it does")
        return ""
    if status in (401, 403):
        return f"{configuration.url} refused: {text}. Give another key with --key-file"
    return f"{configuration.url} refused: {text}. Nothing was changed" if status >= 400 else ""


def ask(configuration: Configuration, key: str) -> tuple[int, str]:
    """Return the status and reason of a call of `capture.context`; 0 without an answer."""
    store = f"?store={quote(configuration.store, safe='')}" if configuration.store else ""
    pipeline = quote(configuration.pipeline, safe="")
    url = f"{configuration.url}/v1/pipelines/{pipeline}/capture/context{store}"
    headers = {"Content-Type": "application/json"}
    headers |= {"Authorization": f"Bearer {key}"} if key else {}
    body = orjson.dumps({"project": "memrelay", "user": configuration.user})
    # A proxy serves only servers on other machines.
    handlers = [ProxyHandler({})] if _is_local(configuration.url) else []
    opener = build_opener(*handlers)
    try:
        with opener.open(Request(url, body, headers), timeout=PROBE_TIMEOUT_S) as answer:
            return answer.status, ""
    except HTTPError as error:
        with error:
            return error.code, _read_reason(error.read(MAX_ANSWER_BYTES)) or str(error.reason)
    except (URLError, OSError) as error:
        return 0, str(getattr(error, "reason", error))


def _read_reason(answer: bytes) -> str:
    try:
        value = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return ""
    return str(value.get("detail") or value.get("error") or "") if isinstance(value, dict) else ""


def revoke(text: str) -> None:
    """Revoke a key if it was made on this machine. Otherwise note that it stays valid."""
    found = FORM.fullmatch(text)
    if found:
        run(lambda settings: _revoke(settings, found[1]))


async def _revoke(settings: Settings, ident: str) -> None:
    if not catalog_exists(settings.memory.root, settings.storage.url):
        note(f"revoke the key on its server: `{PROGRAM} keys revoke {ident}`")
        return
    async with make_catalog(settings) as catalog:
        names = {key.id: key.name for key in await catalog.keys.every()}
        if names.get(ident) == KEY_NAME:
            await catalog.keys.revoke(ident, time.time_ns() // 1_000_000)
        else:
            note(f"the key {ident} stays valid; revoke it with `{PROGRAM} keys revoke {ident}`")
