"""The hook of a coding tool: appends an event to the spool and ends (docs/capture.md).

A coding tool starts a copy of it as `python3 -I -S hook.py TOOL` (configuration.py), with the event
as JSON on the standard input. It needs only the standard library of Python 3.9, and loads few
modules, because a person waits for it. It always ends with exit code 0.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

PROMPT, ANSWER, RESULT, START, END = "user", "assistant", "tool", "start", "end"
EVENTS = {
    "UserPromptSubmit": PROMPT,
    "BeforeAgent": PROMPT,
    "beforeSubmitPrompt": PROMPT,
    "Stop": ANSWER,
    "AfterAgent": ANSWER,
    "afterAgentResponse": ANSWER,
    "PostToolUse": RESULT,
    "PostToolUseFailure": RESULT,
    "AfterTool": RESULT,
    "postToolUse": RESULT,
    "postToolUseFailure": RESULT,
    "SessionStart": START,
    "sessionStart": START,
    "SessionEnd": END,
    "sessionEnd": END,
}
# Seconds after which the hook ends in any case, and that it waits for the context of a project:
# from a server, and from a store file, for which a program with all of Memrelay starts.
DEADLINE_S, CONTEXT_S, FILE_CONTEXT_S = 2.0, 1.0, 1.5
# Seconds that the end of the program may take after its time limit.
KILL_S = 0.2
TOO_LATE = "the context of the project takes too long"
MAX_PAYLOAD, MAX_TRANSCRIPT, MAX_SETTINGS = 16 << 20, 1 << 20, 1 << 20  # bytes
MAX_CONTEXT = 64 << 10  # bytes
MAX_TEXT, MAX_RESULT, MAX_NAME = 65_536, 200, 200  # characters
# Characters after a cut in which a secret is still found, so that no part of it is left.
CUT_MARGIN = 4096
MAX_SPOOL, MAX_SEGMENT, MAX_LOG = 64 << 20, 4 << 20, 256 << 10  # bytes
SENDER = "memrelay.capture.sender"
# The sender must load the installed Memrelay, not a folder of the project or of PYTHONPATH.
ISOLATED = ("-E", "-P")
# Files and folders that are never captured, as patterns of .gitignore.
NEVER = (
    *(
        ".env*",
        "*.env",
        "*.pem",
        "*.key",
        "*.p12",
        "*.pfx",
        "*.jks",
        "*.keystore",
        "*.kdbx",
        "*.ppk",
    ),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".netrc", ".pgpass", ".pypirc", ".npmrc"),
    *(".git-credentials", ".htpasswd", ".git/", ".ssh/", ".aws/", ".gnupg/", ".kube/"),
)
FILE_KEYS = (
    *("file_path", "filePath", "path", "absolute_path", "notebook_path", "target_file", "file"),
    *("filename", "dir_path", "relative_workspace_path", "glob", "include", "uri", "paths"),
    *("files", "file_paths"),
)
# Around the context of hooks in a prompt, in which Gemini CLI escapes all other < and >.
GEMINI_CONTEXT = "<hook_context>", "</hook_context>"
COMMAND_KEYS = ("command", "cmd", "script", "patch", "input", "chars", "args")
WORD = re.compile(r"[^\s'\"`;|&<>(){}=,:@]+")
# Characters that the shell replaces in a pattern of names. The rest are literal characters.
WILDCARD = re.compile(r"\[[^\]]*\]?|[*?]")
MIN_LITERALS, MAX_PATH = 2, 4096
# Names that are checked with all rules, and those after which an input counts as hidden.
MAX_FILES, MAX_NAMES, MAX_DEPTH, MAX_RULES = 100, 1000, 100, 2000
COMMIT = re.compile("[0-9a-f]{40,64}")
# White space as JSON inside of a text writes it.
ESCAPES = re.compile(r"(?<!\\)\\+(?:[bfnrt]|u[0-9A-Fa-f]{4})")


class Folders:
    """The folders of capture: the settings with the hook, and the state with the spool."""

    def __init__(self, config: str, state: str) -> None:
        self.config, self.state = config, state
        self.spool = os.path.join(state, "spool")


def find_folders() -> Folders:
    """Return the folders by the variables of the environment."""
    home = os.path.expanduser("~")
    # A relative folder would be one of the project, whose files are not trusted.
    config, state = (
        given if os.path.isabs(given := os.environ.get(name, "")) else os.path.join(home, default)
        for name, default in (("XDG_CONFIG_HOME", ".config"), ("XDG_STATE_HOME", ".local/state"))
    )
    return Folders(
        os.path.join(config, "memrelay", "capture"), os.path.join(state, "memrelay", "capture")
    )


def main() -> None:
    """Handle one event. The exit code is always 0."""
    folders = find_folders()

    def end_late(*_: Any) -> None:
        try:
            log(folders, TimeoutError(0, "the deadline has passed"))
        finally:
            os._exit(0)

    try:
        signal.signal(signal.SIGALRM, end_late)
        signal.setitimer(signal.ITIMER_REAL, DEADLINE_S)
        run(folders, sys.argv[1], sys.stdin.buffer.read(MAX_PAYLOAD + 1))
    finally:
        try:
            log(folders, sys.exc_info()[1])
        finally:
            os._exit(0)


def run(folders: Folders, tool: str, received: bytes) -> None:
    """Append the event to the spool, start the sender, and print what the tool needs."""
    settings = read_json(os.path.join(folders.config, "config.json"))
    if not settings:
        return
    if len(received) > MAX_PAYLOAD:
        raise ValueError("the payload is too long")
    payload = json.loads(received)
    kind = EVENTS.get(payload.get("hook_event_name"), "")
    if not kind:
        return
    roots = payload.get("workspace_roots") or [""]
    folder = os.path.abspath(str(payload.get("cwd") or roots[0] or os.getcwd()))
    place = Place(folder)
    ignored = Ignored(place, settings.get("ignore", ()))
    is_hidden = ignored.has_folder(folder)
    if kind in (PROMPT, ANSWER, RESULT) and not is_hidden:
        turn = make_turn(tool, kind, payload, settings, ignored)
        if turn:
            turn["text"] = redact(folders, turn["text"])[: turn.pop("limit")]
            if kind == RESULT:
                turn["text"] = ignored.drop_lines(turn["text"])
            append(folders, {**turn, "project": place.project, "branch": place.branch})
    send_waiting(folders, str(settings.get("python", "")))
    if kind == PROMPT and tool == "cursor":
        write(b'{"continue": true}\n')
    if kind == START and not is_hidden and payload.get("source") != "resume":
        show_context(folders, tool, settings, place.project)


# The turn of an event


def make_turn(
    tool: str, kind: str, payload: dict[str, Any], settings: dict[str, Any], ignored: Ignored
) -> dict[str, Any] | None:
    """Return the turn of an event, with a margin after its `limit`; None if it has no text."""
    session = first_text(payload, "conversation_id", "session_id") or "unknown"
    # Without an id of the turn, the time distinguishes repeated prompts.
    own_id = first_text(payload, "tool_use_id") if kind == RESULT else ""
    turn_id = own_id or first_text(payload, "turn_id", "prompt_id", "generation_id", "timestamp")
    turn = {
        "tool": tool,
        "session": session[:MAX_NAME],
        "turn": (turn_id or str(time.time_ns()))[:MAX_NAME],
        "role": kind,
        "at": time.time_ns() // 1_000_000,
        "limit": MAX_TEXT,
    }
    if kind == RESULT:
        if ignored.has_any(list_files(payload.get("tool_input"))):
            return None
        return add_result(turn, payload, bool(settings.get("tool_results")))
    text = find_prompt(payload) if kind == PROMPT else find_answer(payload)
    return {**turn, "text": text[: MAX_TEXT + CUT_MARGIN]} if text.strip() else None


def find_prompt(payload: dict[str, Any]) -> str:
    """Return the prompt, without the context that Gemini CLI puts before the first one."""
    text = first_text(payload, "prompt")
    if text.startswith(GEMINI_CONTEXT[0]) and GEMINI_CONTEXT[1] in text:
        return text.partition(GEMINI_CONTEXT[1])[2].lstrip()
    return text


def add_result(turn: dict[str, Any], payload: dict[str, Any], is_whole: bool) -> dict[str, Any]:
    """Return the turn of a result: name of the tool, exit code and begin of its text."""
    result = next(
        (payload[key] for key in ("tool_response", "tool_output", "error") if payload.get(key)), ""
    )
    if isinstance(result, str) and result[:1] == "{":
        result = parse(result.encode()) or result
    name = first_text(payload, "tool_name")[:MAX_NAME] or "tool"
    code = find_exit(payload, result)
    title = f"{name} exit {code}"
    limit = MAX_TEXT if is_whole else len(title) + 1 + MAX_RESULT
    text = f"{title}\n{find_text(result)[: limit + CUT_MARGIN]}"
    return {**turn, "name": name, "exit": code, "text": text, "limit": limit}


def find_exit(payload: dict[str, Any], result: Any) -> int:
    """Return the exit code of a tool; 1 for a failure without one."""
    fields = [payload]
    if isinstance(result, dict):
        inner = result.get("metadata")
        fields += [result, inner if isinstance(inner, dict) else {}]
    for one in fields:
        for key in ("tool_exit", "exit_code", "exitCode", "exit"):
            if isinstance(one.get(key), int):
                return int(one[key])
    has_failed = any(one.get("error") or one.get("is_error") for one in fields)
    return 1 if has_failed or "Failure" in payload["hook_event_name"] else 0


def find_text(result: Any) -> str:
    """Return the text of a result of a tool."""
    if isinstance(result, str):
        return result
    if isinstance(result, list):
        return "\n".join(map(find_text, result[:100]))
    if not isinstance(result, dict):
        return "" if result is None else json.dumps(result)
    keys = ("stdout", "output", "llmContent", "text", "content", "result", "error", "stderr")
    texts = [find_text(result[key]) for key in keys if result.get(key)]
    return "\n".join(texts) or json.dumps(result)


def list_files(given: Any, key: str = "command") -> Iterator[str]:
    """Yield what may be names of files in the input of a tool, a value below a key."""
    if isinstance(given, dict):
        for name, value in given.items():
            yield from list_files(value, name)
    elif isinstance(given, list):
        for value in given:
            yield from list_files(value, key)
    elif isinstance(given, str) and key in FILE_KEYS:
        path = given.partition("://")[2]
        yield decode_address(path) if path else given
    elif isinstance(given, str) and key in COMMAND_KEYS:
        yield from WORD.findall(given)


def decode_address(text: str) -> str:
    """Return a text of an address without its escapes."""
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text)


def first_text(payload: dict[str, Any], *keys: str) -> str:
    """Return the first of some fields that is a text and not empty, "" without one."""
    texts = (payload.get(key) for key in keys)
    return next((one for one in texts if isinstance(one, str) and one), "")


# Answers in transcripts


def find_answer(payload: dict[str, Any]) -> str:
    """Return the answer in a payload, or the last one in the transcript that it names."""
    text = first_text(payload, "last_assistant_message", "prompt_response", "text", "answer")
    path = first_text(payload, "transcript_path")
    if text or not os.path.isfile(path):
        return text
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - MAX_TRANSCRIPT))
        tail = file.read(MAX_TRANSCRIPT)
    lines: list[Any] = tail.splitlines()
    if size <= MAX_TRANSCRIPT:
        whole = parse(tail)
        lines = whole.get("messages") or lines
    for line in reversed(lines):
        role, text = read_message(line if isinstance(line, dict) else parse(line))
        if role == PROMPT or text:
            return text if role == ANSWER else ""
    return ""


def parse(line: bytes) -> dict[str, Any]:
    """Return a JSON object, empty for anything else."""
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def read_message(line: dict[str, Any]) -> tuple[str, str]:
    """Return the role and text of a line of a transcript of Claude Code, Codex or Gemini CLI.

    The role is empty for other lines, such as results of tools.
    """
    kind, message = line.get("type"), line
    if kind in ("user", "assistant") and not (line.get("isSidechain") or line.get("isMeta")):
        message = line.get("message") or {}  # Claude Code
    elif kind == "response_item" and isinstance(line.get("payload"), dict):
        message = line["payload"]  # Codex
        kind = message.get("role") if message.get("type") == "message" else ""
    elif kind == "gemini":
        kind = "assistant"
    elif kind != "user" or "message" in line:
        return "", ""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    found = [one.get("text") for one in parts if isinstance(one, dict)]
    text = "\n".join(one for one in found if isinstance(one, str) and one)
    return (str(kind), text) if kind in ("user", "assistant") and text else ("", "")


# Secrets


def redact(folders: Folders, text: str) -> str:
    """Return the text with the name of its pattern in place of each secret.

    Raises OSError and ValueError without patterns: the event is then not captured.
    """
    with open(os.path.join(folders.config, "patterns.json"), "rb") as file:
        patterns = json.load(file)
    readings = [text]
    if "\\" in text:
        readings.append(ESCAPES.sub(lambda escape: " " * len(escape[0]), text))
    found: list[tuple[int, int, str]] = []
    for reading in readings:
        lowered = reading.lower()
        for pattern in patterns:
            searched = lowered if pattern["folds"] else reading
            if any(literal in searched for literal in pattern["literals"]):
                found += find_secrets(folders, pattern, reading)
    parts, end = [], 0
    for start, stop, name in sorted(found, key=lambda one: (one[0], -one[1])):
        if start >= end:
            parts += [text[end:start], f"[{name} removed]"]
        elif stop <= end:
            continue
        end = stop
    return "".join((*parts, text[end:]))


def find_secrets(
    folders: Folders, pattern: dict[str, Any], text: str
) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, name) of each secret that a pattern finds in a text."""
    check, source = None, pattern["source"]
    for match in re.compile(source, re.ASCII).finditer(text):
        start, end = match.span(pattern["group"])
        if pattern["check"] and check is None:
            check = load_checks(folders)[pattern["check"]]
        if start < end and (check is None or check(text[start:end])):
            yield start, end, pattern["name"]


def load_checks(folders: Folders) -> dict[str, Any]:
    """Return the functions of checks.py, which the installation copied from Memrelay."""
    with open(os.path.join(folders.config, "checks.py"), "rb") as file:
        code = compile(file.read(), "checks.py", "exec")
    names: dict[str, Any] = {"__name__": "checks"}
    exec(code, names)
    return names


# Projects and ignored files


class Place:
    """The project and branch of a folder, read from the files of git without starting it."""

    def __init__(self, folder: str) -> None:
        self.folder, self.root, self.git, self.branch = folder, folder, "", ""
        for parent in list_parents(folder):
            git = os.path.join(parent, ".git")
            if os.path.exists(git):
                self.root = parent
                self._read_git(git)
                break
        self.project = clean((self._find_remote() or self.root)[-500:])

    def _read_git(self, git: str) -> None:
        """Read the branch. In a worktree or submodule, `.git` is a file that names the folder."""
        if os.path.isfile(git):
            named = read_text(git).partition("gitdir:")[2].strip()
            git = os.path.join(self.root, named)
        head = read_text(os.path.join(git, "HEAD")).strip()
        name = head.partition("refs/heads/")[2]
        commit = head[:12] if COMMIT.fullmatch(head) else ""
        self.branch = name[:MAX_NAME] or commit
        common = read_text(os.path.join(git, "commondir")).strip()
        self.git = os.path.normpath(os.path.join(git, common))

    def _find_remote(self) -> str:
        section = ""
        for line in read_text(os.path.join(self.git, "config")).splitlines() if self.git else ():
            line = line.strip()
            if line.startswith("["):
                section = line.replace("'", '"')
            key, _, value = line.partition("=")
            if section == '[remote "origin"]' and key.strip() == "url":
                return name_remote(value.strip().strip('"'))
        return ""


def name_remote(url: str) -> str:
    """Return host/path of the address of a remote, without scheme, credentials and `.git`."""
    host, path = "", url
    if "://" in url:
        host, _, path = url.partition("://")[2].partition("/")
        path = path if host else "/" + path
        host = host.rpartition("@")[2]
        host = host.partition(":")[0]
    elif ":" in url.partition("/")[0]:
        host, _, path = url.partition(":")
        host = host.rpartition("@")[2]
    path = path.partition("?")[0].rstrip("/")
    path = path[: -len(".git")] if path.endswith(".git") else path
    return f"{host.lower()}/{path.lstrip('/')}" if host else path


def clean(text: str) -> str:
    """Return a text with `?` for each half of a surrogate pair, which no store takes.

    Tools in JavaScript halve pairs when they cut a text. Names of files may be no Unicode at all.
    """
    return text.encode(errors="replace").decode()


def list_parents(folder: str) -> list[str]:
    """Return a folder and those above it, at most 64."""
    parents = [folder]
    while len(parents) < 64 and parents[-1] != os.path.dirname(parents[-1]):
        parents.append(os.path.dirname(parents[-1]))
    return parents


class Ignored:
    """The files and folders that are never captured: keys, the user's list, and those that git
    ignores.
    """

    def __init__(self, place: Place, patterns: Any) -> None:
        self._place = place
        home = os.path.expanduser("~")
        listed = [home + one[1:] if one.startswith("~/") else one for one in map(str, patterns)]
        self._listed = list_rules([*listed, *NEVER])
        self._read: dict[str, list[Rule]] = {}

    def has_folder(self, folder: str) -> bool:
        """Return whether the user's list has a folder or one above it."""
        return is_ignored([*folder.strip("/").split("/"), ""], lambda _: self._listed)

    def has_any(self, files: Iterable[str]) -> bool:
        """Return whether one of the files must not be captured. Too many count as hidden."""
        names = list(dict.fromkeys(files))
        # All rules for all words of a long script would take seconds.
        later = filter(self._may_have, names[MAX_FILES:])
        return (
            len(names) > MAX_NAMES
            or any(map(self._may_match, names))
            or any(map(self._has, names[:MAX_FILES]))
            or any(map(self._has, later))
        )

    def drop_lines(self, text: str) -> str:
        """Return a text without the lines of a search that begin with a hidden file and a colon."""
        hidden: dict[str, bool] = {}
        kept = []
        for line in text.split("\n"):
            name, colon, _ = line.partition(":")
            if colon and name not in hidden:
                # A word that is no file, such as `build`, is only checked against the list.
                hidden[name] = (
                    len(name) <= MAX_PATH
                    and self._may_have(name, os.path.isfile)
                    and self._has(name)
                )
            if not (colon and hidden[name]):
                kept.append(line)
        return "\n".join(kept)

    def _may_have(self, name: str, exists: Callable[[str], bool] = os.path.lexists) -> bool:
        """Return whether a name is that of a file, or has a part that the list names."""
        if exists(os.path.join(self._place.folder, os.path.expanduser(name))):
            return True
        parts = name.split("/")
        return any(matches_name(rule.parts[-1], part) for rule in self._listed for part in parts)

    def _may_match(self, name: str) -> bool:
        """Return whether a name is a pattern of the shell for one in the list, as `.en*` is."""
        if not WILDCARD.search(name) or len(name) > MAX_PATH:
            return False
        return any(
            matches_name(pattern, listed)
            for pattern in name.split("/")
            if WILDCARD.search(pattern) and len(WILDCARD.sub("", pattern)) >= MIN_LITERALS
            for rule in self._listed
            for listed in (rule.parts[-1], rule.parts[-1].rstrip("*"))
        )

    def _has(self, name: str) -> bool:
        path = os.path.normpath(os.path.join(self._place.folder, os.path.expanduser(name)))
        listed = path.strip("/").split("/")
        if len(listed) > MAX_DEPTH or is_ignored(listed, lambda _: self._listed):
            return True
        inside = os.path.relpath(path, self._place.root)
        if inside.startswith("..") or not self._place.git:
            # Also the patterns that begin at the root of a project.
            return False
        parts = inside.split("/")
        return is_ignored(parts, lambda _: self._listed) or is_ignored(parts, self._list_git)

    def _list_git(self, parts: list[str]) -> list[Rule]:
        """Return the rules of the .gitignore of a folder; at the root also of info/exclude."""
        path = os.path.join(self._place.root, *parts, ".gitignore")
        if path not in self._read:
            texts = [] if parts else [read_text(os.path.join(self._place.git, "info/exclude"))]
            texts.append(read_text(path))
            self._read[path] = list_rules("\n".join(texts).splitlines()[:MAX_RULES])
        return self._read[path]


class Rule:
    """A pattern of .gitignore: its parts between slashes, and how it counts."""

    def __init__(self, line: str) -> None:
        self.is_negated = line.startswith("!")
        self.for_folders = line.endswith("/")
        pattern = line.lstrip("!").rstrip("/")
        parts = pattern.lstrip("/").split("/")
        self.parts = parts if "/" in pattern else ["**", *parts]


def list_rules(lines: Any) -> list[Rule]:
    """Return the rules of the lines of a .gitignore."""
    stripped = (line.strip() for line in lines)
    return [Rule(line) for line in stripped if line.strip("/!") and not line.startswith("#")]


def is_ignored(parts: list[str], list_for: Any) -> bool:
    """Return whether a path, or a folder above it, is ignored.

    `list_for` returns the rules of a folder, given by its parts. The last rule that matches counts.
    """
    rules: list[tuple[int, Rule]] = []
    known: set[int] = set()
    for depth in range(len(parts)):
        listed = list_for(parts[:depth])
        if id(listed) not in known:
            known.add(id(listed))
            rules += [(depth, rule) for rule in listed]
        is_last, verdict = depth == len(parts) - 1, False
        for base, rule in rules:
            if not (rule.for_folders and is_last) and matches(rule.parts, parts[base : depth + 1]):
                verdict = not rule.is_negated
        if verdict:
            return True
    return False


def matches(pattern: list[str], parts: list[str]) -> bool:
    """Return whether the parts of a path match those of a pattern. `**` is any number of parts."""
    # The positions in the path to which the pattern can lead so far.
    ends = {0}
    for one in pattern:
        if one == "**":
            ends = set(range(min(ends), len(parts) + 1))
        else:
            ends = {at + 1 for at in ends if at < len(parts) and matches_name(one, parts[at])}
        if not ends:
            return False
    return len(parts) in ends


def matches_name(pattern: str, name: str) -> bool:
    """Return whether a name matches a pattern with `*`, `?` and `[...]`."""
    if not any(one in pattern for one in "*?["):
        return name == pattern
    head, _, tail = pattern.partition("*")
    if not any(one in head + tail for one in "*?["):
        long_enough = len(name) >= len(head) + len(tail)
        return long_enough and name.startswith(head) and name.endswith(tail)
    from fnmatch import fnmatchcase

    return fnmatchcase(name, pattern)


# The spool: segments of JSON lines, which the sender deletes


def append(folders: Folders, turn: dict[str, Any]) -> None:
    """Append a line to the last segment, and drop the oldest segments of a full spool."""
    os.makedirs(folders.spool, mode=0o700, exist_ok=True)
    line = clean(json.dumps(turn, ensure_ascii=False)).encode() + b"\n"
    with Lock(folders):
        names = sorted(os.listdir(folders.spool))
        sizes = [os.path.getsize(os.path.join(folders.spool, name)) for name in names]
        while names and sum(sizes) + len(line) > MAX_SPOOL:
            drop_oldest(folders, names.pop(0))
            sizes.pop(0)
        if not names or sizes[-1] + len(line) > MAX_SEGMENT:
            # The sender deletes all but the last segment, so a clock that goes back must not count.
            last = names[-1] if names and names[-1].isdecimal() else "0"
            names.append(f"{max(time.time_ns(), int(last) + 1):020d}")
        path = os.path.join(folders.spool, names[-1])
        segment = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        size = os.fstat(segment).st_size
        if os.write(segment, line) < len(line):  # the disk is full
            os.ftruncate(segment, size)
        os.close(segment)


class Lock:
    """The lock under which the spool is changed, as a context."""

    def __init__(self, folders: Folders) -> None:
        self._path = os.path.join(folders.state, "spool.lock")

    def __enter__(self) -> None:
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


def drop_oldest(folders: Folders, name: str) -> None:
    """Delete a segment, and count its events that were not sent."""
    offset = read_json(os.path.join(folders.state, "offset.json"))
    path = os.path.join(folders.spool, name)
    with open(path, "rb") as file:
        file.seek(offset.get("offset", 0) if offset.get("segment") == name else 0)
        lost = file.read(MAX_SPOOL).count(b"\n")
    os.unlink(path)
    counted = os.path.join(folders.state, "dropped")
    total = int(read_text(counted) or 0) + lost
    with open(counted, "w", opener=open_private) as file_of_count:
        file_of_count.write(str(total))


def open_private(path: str, flags: int) -> int:
    """Open a file that only the user can read."""
    return os.open(path, flags, 0o600)


def has_events(folders: Folders) -> bool:
    """Return whether the spool has events that were not sent."""
    return os.path.isdir(folders.spool) and bool(os.listdir(folders.spool))


def is_sending(folders: Folders) -> bool:
    """Return whether a sender runs. It ends under the lock of the spool, so no event stays."""
    if not os.path.isdir(folders.state):
        return False
    path = os.path.join(folders.state, "sender.lock")
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def send_waiting(folders: Folders, python: str) -> None:
    """Start the sender if events wait and none runs."""
    if not is_sending(folders) and has_events(folders):
        start_sender(folders, python)


def start_sender(folders: Folders, python: str) -> None:
    """Start the sender in a new session, without the files of the tool."""
    if os.fork():
        return
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        os.setsid()
        os.chdir(folders.state)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        os.closerange(3, 256)
        os.nice(10)
        os.execv(python, [python, *ISOLATED, "-m", SENDER, folders.config, folders.state])
    finally:
        try:
            log(folders, sys.exc_info()[1])
        finally:
            os._exit(0)


# The context of a project at the start of a session


def show_context(folders: Folders, tool: str, settings: dict[str, Any], project: str) -> None:
    """Print the context of a project as the tool reads it; nothing without an answer in time."""
    import threading

    texts: list[str] = []
    is_server = bool(settings.get("url"))
    ask = ask_server if is_server else ask_file
    # A thread, because the name of a server is resolved without a time limit.
    thread = threading.Thread(
        target=lambda: texts.append(ask(folders, settings, project)), daemon=True
    )
    threading.excepthook = lambda fault: log(folders, fault.exc_value)
    thread.start()
    thread.join(CONTEXT_S if is_server else FILE_CONTEXT_S + KILL_S)
    if thread.is_alive():
        log(folders, TimeoutError(0, TOO_LATE))
    text = "".join(texts[:1])
    if not text:
        return
    if tool == "opencode":
        write(text.encode())
    elif tool == "cursor":
        write(json.dumps({"additional_context": text}).encode())
    else:
        shown = {"hookEventName": "SessionStart", "additionalContext": text}
        write(json.dumps({"hookSpecificOutput": shown}).encode())


def ask_server(folders: Folders, settings: dict[str, Any], project: str) -> str:
    """Return the context of a project from a server. Raises OSError and ValueError."""
    import http.client
    from urllib.parse import quote, urlsplit

    parts = urlsplit(settings["url"])
    is_tls = parts.scheme == "https"
    connect = http.client.HTTPSConnection if is_tls else http.client.HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=CONTEXT_S)
    path = f"{parts.path.rstrip('/')}/v1/pipelines/{quote(settings['pipeline'], safe='')}"
    store = settings.get("store")
    query = f"?store={quote(store, safe='')}" if store else ""
    body = json.dumps({"project": project, "user": settings.get("user", "")})
    headers = {"Content-Type": "application/json", "Connection": "close"}
    key = read_text(os.path.join(folders.config, "key")).strip()
    if key:
        headers["Authorization"] = f"Bearer {key}"
    connection.request("POST", f"{path}/capture/context{query}", body, headers)
    answer = connection.getresponse()
    found = answer.read(MAX_CONTEXT)
    if answer.status != 200:
        raise ValueError(f"the server answered {answer.status}")
    return first_text(parse(found), "text")


def ask_file(folders: Folders, settings: dict[str, Any], project: str) -> str:
    """Return the context of a project from a store file. Raises OSError."""
    import subprocess

    module = "memrelay.capture.file_context"
    command = [settings["python"], *ISOLATED, "-m", module, folders.config, folders.state, project]
    try:
        done = subprocess.run(
            command,
            cwd=folders.config,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=FILE_CONTEXT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(0, TOO_LATE) from error
    return done.stdout[:MAX_CONTEXT].decode(errors="replace") if not done.returncode else ""


# Files


def read_text(path: str) -> str:
    """Return the text of a file, "" if it cannot be read. A pipe or device would never end."""
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(MAX_SETTINGS)
    except OSError:
        return ""


def read_json(path: str) -> dict[str, Any]:
    """Return a JSON object of a file, empty if it cannot be read."""
    return parse(read_text(path).encode())


def write(output: bytes) -> None:
    """Write to the tool."""
    os.write(1, output)


def log(folders: Folders, fault: BaseException | None) -> None:
    """Note an error, without texts of the session."""
    if fault is None or not os.path.isdir(folders.config):
        return
    os.makedirs(folders.state, mode=0o700, exist_ok=True)
    path = os.path.join(folders.state, "capture.log")
    trace = fault.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    line = trace.tb_lineno if trace else 0
    reason = f": {fault.strerror}" if isinstance(fault, OSError) else ""
    text = f"{time.strftime('%FT%T')} hook {type(fault).__name__} in line {line}{reason}\n"
    is_full = os.path.exists(path) and os.path.getsize(path) > MAX_LOG
    with open(path, "w" if is_full else "a", opener=open_private) as file:
        file.write(text)
