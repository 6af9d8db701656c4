"""References to secrets: the allowed places, the callers that may use them, and their values.

`env:NAME` is an environment variable. `file:NAME` is a file in the folder `secrets.folder`.
"""

import asyncio
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from memrelay.guarded_http.rules import PUBLIC_ONLY, OutgoingRules
from memrelay.pipelines.secret_grants import Grant
from memrelay.pipelines.webhook_secrets import describe_secret_faults, describe_token_faults

if TYPE_CHECKING:  # a command that checks no bundle needs no blocks
    from memrelay.pipelines.bundle import AgentSpec
    from memrelay.pipelines.checked import CheckedAgent
    from memrelay.pipelines.report import JsonPath, Report

MAX_SECRET_BYTES = 65_536
# Seconds after which a use looks for a change of the file.
FRESH_S = 1.0
# Files that the check of one bundle reads.
MAX_CHECKED_FILES = 100
# Opening a pipe does not wait, and a link that replaces the file is not followed.
OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC

OUTSIDE = "is outside the folder secrets.folder"
NOT_ONE_LINE = "has control characters, such as line breaks; store a single line"
NOT_LISTED = "is not a secret for blocks; add it to agents.secrets in the settings"
TOO_LARGE = f"is not a regular file of at most {MAX_SECRET_BYTES >> 10} KiB"


CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# A shorter value is not redacted, because it is part of many words.
MIN_REDACTED = 4
# Values given to blocks that are remembered, the latest. Each change of a file adds one.
MAX_REDACTED = 1000
REDACTED = "[secret]"


class SecretOutsideFolder(LookupError):
    """The file of a reference lies outside the folder for secrets."""

    def __init__(self, reference: str) -> None:
        super().__init__(f"{reference} {OUTSIDE}")


class SecretNotListed(LookupError):
    """The operator has not listed the reference for blocks."""

    def __init__(self, reference: str) -> None:
        super().__init__(f"{reference[:100]} {NOT_LISTED}")


class SecretNotBound(LookupError):
    """The operator has not allowed to send the secret to a host."""

    def __init__(self, reference: str, host: str) -> None:
        super().__init__(describe_binding(reference, host))


def describe_binding(reference: str, host: str) -> str:
    """Return why a secret is not sent to a host, "" for any host."""
    where = f"to {host[:100]}" if host else "anywhere"
    return f"the secret {reference[:100]} may not be sent {where}; add it to outgoing.secrets"


@dataclass(frozen=True, slots=True)
class _SecretFile:
    """The value of a file, or why it cannot be used. `version` is () unless it was read."""

    value: str
    fault: str
    version: tuple[int, ...]
    checked_at_s: float


class SecretResolver:
    """Resolves references. Files are cached, and read again when they change.

    `folder` is that of the files. `granted` has pairs (uid, variable): the variables that a key
    limited to a pipeline may refer to. `for_blocks` are the references that blocks may use, as the
    operator has written them, and `outgoing` has the hosts of those that blocks may send. `clock`
    returns seconds.
    """

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        granted: Collection[Grant] = (),
        clock: Callable[[], float] = time.monotonic,
        *,
        for_blocks: Collection[str] = (),
        outgoing: OutgoingRules = PUBLIC_ONLY,
    ) -> None:
        self._folder, self._environ = folder, environ
        # An absolute reference may spell the folder with or without its symbolic links.
        self._spellings = (folder, Path(os.path.realpath(folder)))
        self._granted, self._clock = frozenset(granted), clock
        self._for_blocks, self._outgoing = frozenset(for_blocks), outgoing
        self._files: dict[str, _SecretFile] = {}
        self._reading: dict[str, asyncio.Task[_SecretFile]] = {}
        # The values that blocks have read, the oldest first.
        self._given: dict[str, None] = {}

    async def resolve(self, reference: str) -> str:
        """Return a secret without blocking the event loop. A change takes effect within a second.

        Raises LookupError: the text names the reference and the reason.
        """
        kind, _, name = reference.partition(":")
        if kind != "file":
            return self._read_variable(reference, name)
        known = self._files.get(name)
        if known is None or self._clock() - known.checked_at_s >= FRESH_S:
            known = await self._refresh(name)
        return _read_value(reference, known)

    def read(self, reference: str) -> str:
        """Read a secret now, past the cache. Blocks while it reads a file.

        Raises SecretOutsideFolder and LookupError.
        """
        kind, _, name = reference.partition(":")
        if kind != "file":
            return self._read_variable(reference, name)
        return _read_value(reference, self._load(name, None))

    def read_for_block(self, reference: str) -> str:
        """Return a secret that blocks may use. A changed file is read again within a second.

        Any thread may call it. It blocks while it reads a file. Raises LookupError: the text names
        the reference and the reason, such as control characters, which HTTP libraries quote in
        their errors.
        """
        if not self.is_for_blocks(reference):
            raise SecretNotListed(reference)
        return self._read_for_block(reference)

    def read_to_send(self, reference: str, host: str, uid: str) -> str:
        """Return a secret that a pipeline may send to a host, "" for any host. As `read_for_block`.

        Raises LookupError.
        """
        if not self.may_send(reference, host, uid):
            raise SecretNotBound(reference, host)
        return self._read_for_block(reference)

    @property
    def outgoing(self) -> OutgoingRules:
        """The rules for requests of blocks."""
        return self._outgoing

    def may_send(self, reference: str, host: str, uid: str) -> bool:
        """Return whether a pipeline may send a secret to a host, "" for any host."""
        return self._outgoing.may_send(reference, host, uid)

    def binds(self, reference: str) -> bool:
        """Return whether `outgoing.secrets` has the hosts of a secret."""
        return self._outgoing.binds(reference)

    def _read_for_block(self, reference: str) -> str:
        value = self._find_value(reference)
        if CONTROL_CHARACTER.search(value):
            raise LookupError(f"{reference} {NOT_ONE_LINE}")
        if len(value) >= MIN_REDACTED and value not in self._given:
            self._given[value] = None
            for oldest in list(self._given)[:-MAX_REDACTED]:
                self._given.pop(oldest, None)
        return value

    def redact(self, text: str) -> str:
        """Return a text without the values that blocks have read."""
        for value in sorted((*self._given,), key=len, reverse=True):
            text = text.replace(value, REDACTED)
        return text

    def _find_value(self, reference: str) -> str:
        kind, _, name = reference.partition(":")
        if kind != "file":
            return self._read_variable(reference, name)
        known = self._files.get(name)
        if known is None or self._clock() - known.checked_at_s >= FRESH_S:
            known = self._files[name] = self._load(name, known)
        return _read_value(reference, known)

    def is_for_blocks(self, reference: str) -> bool:
        """Return whether the operator has listed a reference for blocks."""
        return reference in self._for_blocks

    def is_unset(self, reference: str) -> bool:
        """Return whether a reference names a variable that this process does not have."""
        kind, _, name = reference.partition(":")
        return kind == "env" and name not in self._environ

    def is_outside(self, reference: str) -> bool:
        """Return whether a reference names a file outside the folder, by its text alone."""
        kind, _, name = reference.partition(":")
        return kind == "file" and self._relative_path(name) is None

    def may_use(self, uid: str, reference: str) -> bool:
        """Return whether a key that is limited to a pipeline may deploy this reference there.

        It may use the files `UID/...` of the folder, and the variables granted to the pipeline.
        """
        kind, _, name = reference.partition(":")
        if kind == "env":
            return (uid, name) in self._granted
        path = self._relative_path(name)
        return path is not None and len(path.parts) > 1 and path.parts[0] == uid

    def _read_variable(self, reference: str, name: str) -> str:
        value = self._environ.get(name)
        if value is None:
            raise LookupError(f"{reference} is not set")
        return value

    def write(self, name: str, value: str, *, replace: bool = False) -> None:
        """Store a secret as the file `name` of the folder, which only this user may read.

        A crash leaves the old value or the new one. Blocks while it writes. Raises ValueError for
        an invalid value or name, FileExistsError, and OSError.
        """
        path = self._relative_path(name)
        if path is None:
            raise ValueError(OUTSIDE)
        if CONTROL_CHARACTER.search(value):
            raise ValueError(NOT_ONE_LINE)
        if not value or len(value.encode()) > MAX_SECRET_BYTES:
            raise ValueError(f"must have 1 to {MAX_SECRET_BYTES} bytes")
        target = self._folder / path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not target.parent.resolve().is_relative_to(self._folder.resolve()):
            raise ValueError(OUTSIDE)
        with NamedTemporaryFile(dir=target.parent, prefix=".", delete=False) as file:
            try:
                file.write(value.encode())
                file.flush()
                os.fsync(file.fileno())
                if replace:
                    os.replace(file.name, target)
                else:
                    os.link(file.name, target)
            finally:
                Path(file.name).unlink(missing_ok=True)

    async def _refresh(self, name: str) -> _SecretFile:
        """Look at a file in a thread. Concurrent callers share one look."""
        task = self._reading.get(name)
        if task is None:
            task = asyncio.create_task(asyncio.to_thread(self._load, name, self._files.get(name)))
            self._reading[name] = task
            task.add_done_callback(lambda done: self._keep(name, done))
        return await asyncio.shield(task)

    def _keep(self, name: str, done: "asyncio.Task[_SecretFile]") -> None:
        del self._reading[name]
        if not done.cancelled() and done.exception() is None:
            self._files[name] = done.result()

    def _load(self, name: str, known: _SecretFile | None) -> _SecretFile:
        """Return the file as it is now. An unchanged file is not read again."""
        now_s, path = self._clock(), self._relative_path(name)
        if path is None:
            return _SecretFile("", OUTSIDE, (), now_s)
        try:
            real = (self._folder / path).resolve()
            if not real.is_relative_to(self._folder.resolve()):
                return _SecretFile("", OUTSIDE, (), now_s)
            found = real.stat()
            if not S_ISREG(found.st_mode) or found.st_size > MAX_SECRET_BYTES:
                return _SecretFile("", TOO_LARGE, (), now_s)
            version = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            if known is not None and known.version == version:
                return replace(known, checked_at_s=now_s)
            return _SecretFile(_read_text(real), "", version, now_s)
        except OSError as error:
            return _SecretFile("", f"cannot be read: {error.strerror}", (), now_s)
        except (ValueError, RuntimeError):  # no UTF-8; before Python 3.13, a loop of links
            return _SecretFile("", "is not a file with text in UTF-8", (), now_s)

    def _relative_path(self, name: str) -> Path | None:
        """Return the path below the folder, or None if the name leads elsewhere."""
        path = Path(name)
        if path.is_absolute():
            above = next((one for one in self._spellings if path.is_relative_to(one)), None)
            if above is None:
                return None
            path = path.relative_to(above)
        leads_elsewhere = name.startswith("~") or ".." in path.parts or not path.parts
        return None if leads_elsewhere else path


# For a worker that offers no secrets.
NO_SECRETS = SecretResolver(Path("/"), {})


def check_block_references(
    agents: Mapping[int, "CheckedAgent | None"], secrets: SecretResolver, report: "Report"
) -> None:
    """Report references of blocks that the operator has not listed.

    Otherwise the author of a bundle could send a secret to an endpoint of choice.
    """
    for at, agent in agents.items():
        if agent is None:
            continue
        place: JsonPath = ("agents", at, *(() if _has_keys(agent) else ("wf_webhook_args",)))
        sent = [*agent.args.sent_secrets]
        for reference in agent.args.secrets:
            host = agent.args.secret_hosts.get(reference)
            if host is not None and secrets.binds(reference):
                sent.append((reference, host))
            elif not secrets.is_for_blocks(reference):
                remedy = "ask the operator to add it to agents.secrets in the settings"
                report.error(place, f"blocks may not use the secret {reference[:100]}", remedy)
        for reference, host in sent:
            if not secrets.may_send(reference, host, agent.agent.pipeline):
                report_unbound(place, reference, host, report)


def report_unbound(place: "JsonPath", reference: str, host: str, report: "Report") -> None:
    """Report a secret that the operator has not allowed to send to a host, "" for any host."""
    fault, _, remedy = describe_binding(reference, host).partition("; ")
    report.error(place, fault, f"ask the operator: {remedy} in the settings")


def _has_keys(agent: "CheckedAgent") -> bool:
    """Return whether the arguments are keys of the agent, as those of an ai_agent."""
    return any(field.alias for field in type(agent.args).model_fields.values())


def check_references(
    agents: Mapping[int, "AgentSpec"], secrets: SecretResolver, report: "Report"
) -> None:
    """Report references to files outside the folder, and warn about values that cannot be used.

    The warnings come only with a bundle without faults. Otherwise a deployer whose bundle is
    rejected could find out which files exist. Another process may have the variables that this one
    lacks.
    """
    found = [one for one in list_references(agents) if not secrets.is_unset(one[1])]
    for place, reference in found:
        if secrets.is_outside(reference):
            _report_outside(place, report)
    if report.errors:
        return
    for place, reference in islice(found, MAX_CHECKED_FILES):
        try:
            faults = find_value_faults(agents[int(place[1])], place, reference, secrets)
        except SecretOutsideFolder:
            _report_outside(place, report)
            continue
        for fault in faults:
            report.warn(place, fault, "until it can be used, it admits no webhook")


def find_value_faults(
    spec: "AgentSpec", place: "JsonPath", reference: str, secrets: SecretResolver
) -> list[str]:
    """Return why the value of a token or secret of an agent's webhook cannot be used.

    Raises SecretOutsideFolder.
    """
    try:
        value = secrets.read(reference)
    except SecretOutsideFolder:
        raise
    except LookupError as error:
        return [str(error)]
    if place[-1] != "wf_webhook_secret":
        return [f"{reference} {fault}" for fault in describe_token_faults(value)]
    return [f"{reference} {fault}" for fault in describe_secret_faults(value, spec.key_form)]


def _report_outside(place: "JsonPath", report: "Report") -> None:
    report.error(
        place,
        "the file of a secret must lie in the folder secrets.folder, also after following links",
        "move it there and write file:NAME, relative to that folder",
    )


def list_references(agents: Mapping[int, "AgentSpec"]) -> Iterator[tuple["JsonPath", str]]:
    """Yield the references of the webhooks of agents, each with its path in the bundle."""
    for at, spec in agents.items():
        if spec.wf_webhook_token:
            yield ("agents", at, "wf_webhook_token"), spec.wf_webhook_token
        for reference in spec.secrets:
            yield ("agents", at, "wf_webhook_secret"), reference
        if spec.wf_webhook_verify:
            yield ("agents", at, "wf_webhook_verify"), spec.wf_webhook_verify


def _read_value(reference: str, file: _SecretFile) -> str:
    """Return the value. Raises SecretOutsideFolder and LookupError."""
    if file.fault == OUTSIDE:
        raise SecretOutsideFolder(reference)
    if file.fault:
        raise LookupError(f"{reference} {file.fault}")
    return file.value


def _read_text(path: Path) -> str:
    """Return the text of a file without its last line break and without a byte order mark.

    Raises OSError and ValueError.
    """
    with open(os.open(path, OPEN_FLAGS), "rb") as file:
        data = file.read(MAX_SECRET_BYTES)
    return data.decode("utf-8-sig").rstrip("\r\n")
