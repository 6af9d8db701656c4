"""Limits on size, nesting, parameters and broad excepts."""

import ast
from collections.abc import Iterator

from tests.architecture.source import Source

BODY_LINES = 60
FILE_LINES = 900
NESTING = 3
PARAMETERS = 5

NESTING_STATEMENTS = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.TryStar,
    ast.Match,
)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
BROAD = ("Exception", "BaseException")
ENVIRONMENT = ("environ", "environb", "getenv", "getenvb")


def long_functions(source: Source) -> list[str]:
    """The body counts from its first statement to its last line: neither signature, decorators nor
    docstring."""
    faults = []
    for function in source.functions():
        body = function.body[ast.get_docstring(function) is not None :]
        lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
        if lines > BODY_LINES:
            faults.append(
                source.at(function, f"{function.name} has {lines} lines; at most {BODY_LINES}")
            )
    return faults


def long_files(source: Source) -> list[str]:
    lines = len(source.text.splitlines())
    fault = f"{source.path}:{FILE_LINES}: the file has {lines} lines; at most {FILE_LINES}"
    return [fault] if lines > FILE_LINES else []


def deep_nesting(source: Source) -> list[str]:
    return [
        source.at(
            statement,
            f"nested {depth} deep; at most {NESTING}: leave early, or name the inner part",
        )
        for statement, depth in _nested(source.tree, 0)
        if depth > NESTING
    ]


def many_parameters(source: Source) -> list[str]:
    faults = []
    for function in source.functions():
        names = [parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)]
        count = len(names) - (names[:1] in (["self"], ["cls"]))
        if count > PARAMETERS:
            fault = (
                f"{function.name} takes {count} positional parameters; at most {PARAMETERS}, "
                f"the rest keyword-only"
            )
            faults.append(source.at(function, fault))
    return faults


def broad_excepts(source: Source) -> list[str]:
    """`except:`, `except Exception`, `except BaseException`, and the same through
    contextlib.suppress."""
    faults = []
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler) and (node.type is None or _is_broad(node.type)):
            faults.append(source.at(node, "catches everything; catch what can be handled, by name"))
        elif (
            isinstance(node, ast.Call)
            and _name(node.func) == "suppress"
            and any(map(_is_broad, node.args))
        ):
            faults.append(
                source.at(node, "suppresses everything; suppress what is expected, by name")
            )
    return faults


def reads_of_the_environment(source: Source) -> list[str]:
    remedy = "the environment is read in memrelay/cli/settings.py; take the value as an argument"
    faults = [
        source.at(node, remedy)
        for node in source.nodes
        if isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT
    ]
    return faults + [
        source.at(node, remedy) for node, name in source.imports() if name in _from_os()
    ]


def imports_in_functions(source: Source) -> list[str]:
    inner = {node for function in source.functions() for node in ast.walk(function)}
    return [
        source.at(node, f"{name} is imported inside a function; import it at the top")
        for node, name in source.imports()
        if node in inner
    ]


def _nested(parent: ast.AST, depth: int) -> Iterator[tuple[ast.stmt, int]]:
    """Each nesting statement with its depth, which starts at 0 in a function or class."""
    for child in ast.iter_child_nodes(parent):
        if isinstance(child, SCOPES):
            yield from _nested(child, 0)
        elif isinstance(child, NESTING_STATEMENTS) and not _is_elif(parent, child):
            yield child, depth + 1
            yield from _nested(child, depth + 1)
        else:
            yield from _nested(child, depth)


def _is_elif(parent: ast.AST, child: ast.stmt) -> bool:
    """To the syntax tree an `elif` is an `if` in the `else`, but one that starts in the column of
    its parent."""
    in_else = isinstance(parent, ast.If) and isinstance(child, ast.If) and child in parent.orelse
    return in_else and child.col_offset == getattr(parent, "col_offset", None)


def _is_broad(caught: ast.expr) -> bool:
    return any(_name(node) in BROAD for node in ast.walk(caught))


def _name(node: ast.AST) -> str:
    return str(getattr(node, "id", getattr(node, "attr", "")))


def _from_os() -> set[str]:
    return {f"os.{name}" for name in ENVIRONMENT}
