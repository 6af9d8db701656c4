"""Python files as the architecture rules see them: path, text and syntax tree."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
YARDSTICK = ROOT / "benchmarks" / "yardstick"  # an exact copy of fixed programs
PACKAGES = (
    *("guarded_http", "memory", "bus", "agents", "blocks", "pipelines", "worker", "web", "cli"),
    *("tracing", "questions"),
    *("client", "embedded", "integrations", "capture", "rehearsal", "testing", "dry_run"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """One file, with its path relative to the root of the repository."""

    path: str
    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]  # every node of the tree, walked once for all rules

    @classmethod
    def of(cls, path: str, text: str) -> "Source":
        tree = ast.parse(text, path)
        return cls(path, text, tree, tuple(ast.walk(tree)))

    @property
    def package(self) -> str:
        """The package: `worker` for `memrelay/worker/run/batch.py`, `memrelay` for its own files,
        and the top folder for other files.
        """
        top, *folders, _ = self.path.split("/")
        return folders[0] if top == "memrelay" and folders else top

    @property
    def module(self) -> str:
        """The import name: `memrelay.worker.run.batch` for `memrelay/worker/run/batch.py`."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def at(self, node: ast.stmt | ast.expr | ast.ExceptHandler, fault: str) -> str:
        return f"{self.path}:{node.lineno}: {fault}"

    def imports(self) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
        """Each absolute import with its dotted name: `from a import b` imports a.b."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((node, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        return (
            node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        )


@cache
def sources(*folders: str) -> tuple[Source, ...]:
    """Every Python file below these folders of the root."""
    files = [file for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))]
    files = [file for file in files if YARDSTICK not in file.parents]
    return tuple(
        Source.of(file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8"))
        for file in files
    )


def packages(*names: str) -> tuple[Source, ...]:
    """Every Python file of these packages."""
    return sources(*(f"memrelay/{name}" for name in names))


def api_sources() -> tuple[Source, ...]:
    """The files of memrelay/ that belong to no package: the public Python API."""
    return tuple(one for one in sources("memrelay") if one.package not in PACKAGES)
