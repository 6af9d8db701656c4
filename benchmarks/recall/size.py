"""usage: size.py [COMMIT]. Print the size of the ranking code, also of a commit.

Lines are all lines of the Python files of memory/search, as `wc -l` counts them. Numeric constants
are names in capitals that a module assigns a value with a number. Each name counts once, and a dict
as often as it has values with a number. Embedders and exempt modules are no part of the ranking.
"""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "memrelay/memory/search"
EMBEDDERS = f"{FOLDER}/embedding/"
# Modules with what the ranking could not do before.
EXEMPT = (f"{FOLDER}/cross_encoder.py",)
PARTS = ("ranking", "embedders", "exempt")


def read_checkout() -> dict[str, str]:
    """Return file -> text of this checkout."""
    files = sorted((ROOT / FOLDER).rglob("*.py"))
    return {file.relative_to(ROOT).as_posix(): file.read_text() for file in files}


def read_commit(commit: str) -> dict[str, str]:
    """Return file -> text of a commit."""
    names = _git("ls-tree", "-r", "--name-only", commit, FOLDER).splitlines()
    return {name: _git("show", f"{commit}:{name}") for name in names if name.endswith(".py")}


def measure(files: Mapping[str, str]) -> tuple[Counter[str], Counter[str]]:
    """Return part -> lines, and part -> numeric constants."""
    lines, constants = Counter[str](), Counter[str]()
    for name, text in files.items():
        part = "embedders" if name.startswith(EMBEDDERS) else "ranking"
        part = "exempt" if name in EXEMPT else part
        lines[part] += text.count("\n")
        constants[part] += count_constants(text)
    return lines, constants


def count_constants(text: str) -> int:
    """Return the number of numeric constants of a module."""
    return sum(_count_numbers(value) for value in _list_constants(ast.parse(text)))


def _list_constants(module: ast.Module) -> Iterator[ast.expr]:
    """Yield the value of each name in capitals."""
    for node in module.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [one for target in targets for one in ast.walk(target)]
            yield from (node.value for one in names if getattr(one, "id", "").isupper())


def _count_numbers(value: ast.expr) -> int:
    parts = value.values if isinstance(value, ast.Dict) else [value]
    return sum(any(map(_is_number, ast.walk(part))) for part in parts)


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _git(*arguments: str) -> str:
    return subprocess.check_output(["git", "-C", str(ROOT), *arguments], text=True)


if __name__ == "__main__":
    trees = {commit: read_commit(commit) for commit in sys.argv[1:2]} | {"now": read_checkout()}
    for tree, files in trees.items():
        lines, constants = measure(files)
        for part in PARTS:
            print(f"{tree:9} {part:9} {lines[part]:5} lines {constants[part]:4} numeric constants")
