"""`memrelay capture`: capture the sessions of coding tools as turns (docs/capture.md)."""

import os
import pwd
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from memrelay.capture import configuration as saved
from memrelay.capture.configuration import BadConfiguration, Configuration, Paths
from memrelay.capture.hook import Folders, send_waiting
from memrelay.capture.installation import CannotChange, Installation
from memrelay.capture.spool import Spool
from memrelay.capture.tools import TOOLS, Tool
from memrelay.capture.tools.tool import SettingsFault
from memrelay.cli.capture_target import Options, ask, choose, probe, revoke
from memrelay.cli.composition import fail, note
from memrelay.cli.options import Json, complete_pipelines
from memrelay.cli.settings import process_environment
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import counted, table
from memrelay.installation import PROGRAM
from memrelay.memory.engine.timestamps import format_time

ToolName = Annotated[
    str, typer.Argument(metavar="TOOL", help=f"The coding tool: {', '.join(TOOLS)}.")
]
Url = Annotated[
    str, typer.Option(metavar="URL", help="The web server. By default that of the settings.")
]
PipelineOption = Annotated[
    str,
    typer.Option(
        metavar="PIPELINE",
        help="The uid of the pipeline, or its name on this machine. By default the only one with "
        "a store for turns.",
        autocompletion=complete_pipelines,
    ),
]
Store = Annotated[
    str,
    typer.Option(metavar="MEMORY_ID", help="The store of the turns. By default the pipeline's."),
]
User = Annotated[
    str,
    typer.Option(metavar="NAME", help="The user of the turns. By default your name on the system."),
]
File = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write to a store file, without a server."),
]
KeyFile = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="Use the key in this file, or with - on stdin. It needs the scopes write and search.",
    ),
]
ToolResults = Annotated[
    bool | None,
    typer.Option(
        "--tool-results/--no-tool-results",
        help="Capture whole results of tools, not only their first 200 characters.",
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN", help="A folder or file never to capture, as in .gitignore. Repeatable."
    ),
]


def install(
    tool: ToolName,
    *,
    url: Url = "",
    pipeline: PipelineOption = "",
    store: Store = "",
    user: User = "",
    file: File = None,
    key_file: KeyFile = "",
    tool_results: ToolResults = None,
    ignore: Ignore = None,
    as_json: Json = False,
) -> None:
    """Register the hook in your settings of a coding tool, and choose where the turns go.

    A second installation keeps the earlier choices that no option changes.
    """
    options = Options(url, pipeline, store, user, file, key_file, tool_results, ignore)
    installed = _find_tool(tool)
    paths, installation = _open()
    try:
        installation.check(installed)
        notes = installed.list_notes(installation.find_settings(installed))
        before = _load(paths)
        configuration, key = choose(options, before, paths)
        if fault := probe(configuration, saved.read_key(paths) if key is None else key):
            if key and not key_file:
                revoke(key)
            fail(fault)
        hook = saved.copy_hook(paths)
        saved.save(paths, configuration, key or None)
        if key == "":
            paths.key.unlink(missing_ok=True)
        change = installation.install(installed)
        # Events of before a repair, or of an earlier installation.
        send_waiting(Folders(str(paths.config), str(paths.state)), configuration.python)
    except (BadConfiguration, CannotChange, SettingsFault) as error:
        fail(str(error))
    made = {
        "tool": tool,
        "settings": str(change.settings),
        "changed": change.changed,
        "backup": str(change.backup) if change.backup else None,
        "hook": str(hook),
        **_describe(configuration),
        "key": (saved.read_key(paths)[:15] or None),
    }
    if as_json or not sys.stdout.isatty():
        print_json(made)
    else:
        target = configuration.file or f"pipeline {configuration.pipeline} on {configuration.url}"
        print_line(f"{installed.title} now stores its sessions in {target}.")
        print_line(
            f"Changed: {change.settings}" + f" (backup: {change.backup})" * bool(change.backup)
        )
        print_line(f"New sessions are captured. See `{PROGRAM} capture status`.")
    for one in notes:
        note(one)


def uninstall(tool: ToolName, *, as_json: Json = False) -> None:
    """Remove the hook from your settings of a coding tool.

    With the last tool, the key and the copies of the hook are removed too. Captured turns stay, and
    those that wait are delivered to the target of the next installation.
    """
    installed = _find_tool(tool)
    paths, installation = _open()
    try:
        change = installation.uninstall(installed)
        left = installation.list_installed()
    except CannotChange as error:
        fail(str(error))
    waiting = Spool(paths).state().waiting
    if not left:
        _remove_shared(paths)
    made = {
        "tool": tool,
        "settings": str(change.settings),
        "changed": change.changed,
        "restored": change.restored,
        "backup": str(change.backup) if change.backup else None,
        "waiting": waiting,
    }
    if waiting and not left:
        note(
            f"{counted(waiting, 'turn')} not delivered: they stay in {paths.spool}, and the next "
            f"`{PROGRAM} capture install` delivers them to its target; delete that folder to drop "
            "them"
        )
    if as_json or not sys.stdout.isatty():
        print_json(made)
    elif change.restored:
        print_line(f"{change.settings} is as it was before the installation.")
    elif change.changed:
        print_line(f"The entries of Memrelay were removed from {change.settings}.")
    else:
        print_line(f"{change.settings} has no entries of Memrelay.")


def status(*, as_json: Json = False) -> None:
    """Show which tools have the hook, where turns go, and what waits in the spool."""
    paths, installation = _open()
    try:
        tools = [_describe_tool(installation, tool) for tool in TOOLS.values()]
        configuration = _load(paths)
    except (BadConfiguration, CannotChange) as error:
        fail(str(error))
    state = Spool(paths).state()
    reached = _reach(configuration, saved.read_key(paths)) if configuration else "not configured"
    answer = {
        "tools": tools,
        **(_describe(configuration) if configuration else {}),
        "reached": reached,
        "waiting": state.waiting,
        "spool_bytes": state.size,
        "dropped": state.dropped,
        "refused": state.refused,
        "last_delivery": _find_last_delivery(paths),
        "last_problem": _find_last_problem(paths),
    }
    if as_json or not sys.stdout.isatty():
        print_json(answer)
        return
    rows = [("TOOL", "INSTALLED", "SETTINGS")]
    rows += [(one["tool"], "yes" if one["installed"] else "no", one["settings"]) for one in tools]
    for line in table(rows):
        print_line(line)
    target = configuration and (configuration.file or configuration.url)
    print_line(f"Target: {target or 'none'} ({reached})")
    print_line(
        f"Spool: {counted(state.waiting, 'turn')} waiting ({state.size} bytes), {state.dropped} "
        f"dropped, {state.refused} refused; last delivery {answer['last_delivery'] or 'never'}"
    )
    if answer["last_problem"]:
        print_line(f"Last problem: {answer['last_problem']}")


def _describe_tool(installation: Installation, tool: Tool) -> dict[str, Any]:
    """Return whether a tool has the hook; invalid settings are its `problem`."""
    settings = {"tool": tool.name, "settings": str(installation.find_settings(tool))}
    try:
        return {"installed": installation.is_installed(tool), **settings}
    except CannotChange as error:
        return {"installed": False, **settings, "problem": str(error)}


def _reach(configuration: Configuration, key: str) -> str:
    """Return `ok`, or why turns cannot be delivered now."""
    if configuration.file:
        return "ok" if Path(configuration.file).is_file() else "the file does not exist"
    code, reason = ask(configuration, key)
    return "ok" if 200 <= code < 300 else reason or f"the server answered {code}"


def _find_last_delivery(paths: Paths) -> str | None:
    """Return the time at which the sender last noted its position."""
    try:
        at_ms = (paths.state / "offset.json").stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return None
    return format_time(at_ms)


def _find_last_problem(paths: Paths) -> str | None:
    """Return the last line of the log, if nothing was delivered since."""
    noted = paths.state / "offset.json"
    if not paths.log.exists():
        return None
    if noted.exists() and noted.stat().st_mtime_ns > paths.log.stat().st_mtime_ns:
        return None
    lines = paths.log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else None


def _find_tool(name: str) -> Tool:
    if name not in TOOLS:
        fail(f"unknown tool {name!r}; choose one of {', '.join(TOOLS)}")
    return TOOLS[name]


def _open() -> tuple[Paths, Installation]:
    environ = process_environment()
    home = Path(environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir)
    paths = saved.find_paths(environ, home)
    return paths, Installation(paths, environ, home)


def _load(paths: Paths) -> Configuration | None:
    return saved.load(paths) if paths.configuration.exists() else None


def _describe(configuration: Configuration) -> dict[str, Any]:
    names = ("url", "file", "pipeline", "store", "user", "ignore", "tool_results")
    return {name: getattr(configuration, name) for name in names}


def _remove_shared(paths: Paths) -> None:
    """Revoke the key, and delete the copies of the hook and the settings of capture."""
    revoke(saved.read_key(paths))
    saved.remove_hook(paths)
    for path in (paths.configuration, paths.key):
        path.unlink(missing_ok=True)
    # The folder stays if it has backups, or files of the user.
    with suppress(OSError):
        paths.config.rmdir()


capture = [install, uninstall, status]
