"""Operations: everything that memory can do, declared once, so that each face finds it and none
makes its own.

An operation is a plain function `(tx, input, context) -> output` that runs in a database thread,
inside the store's
transaction. Input and output are frozen dataclasses; what they hold is read from the function's
annotations, so it is said
once. A text below a field is its line in the documents.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import cache
from importlib.util import find_spec
from typing import Any, Generic, Literal, TypeVar, get_type_hints

from pydantic import ConfigDict, TypeAdapter

from memrelay.memory import operations
from memrelay.memory.text.languages import DEFAULT_LANGUAGE

Access = Literal["search", "read", "write", "append", "delete", "admin"]
Run = TypeVar("Run", bound=Callable[..., Any])
Bound = TypeVar("Bound")


@dataclass(frozen=True, slots=True)
class Context:
    """What the owner of a store gives to an operation, and no caller may."""

    now_ms: int  # when the call entered the bus, so that a replay says the same
    actor: str  # who asks, as the face knows them
    result_bytes: int  # how long an answer may be, about
    new_guid: Callable[[], str]  # the same ids on a replay
    language: str = DEFAULT_LANGUAGE  # of the store


@dataclass(frozen=True, slots=True)
class Operation:
    """What a face needs to know of an operation."""

    name: str  # "records.create"
    access: Access  # what the caller must be allowed
    mutates: bool
    run: Callable[
        [Any, Any, Context], Any
    ]  # as an act of the caller's: what has expired by then is not there
    input: type  # a frozen dataclass
    output: Any  # one too, or None
    summary: str  # the first line of its docstring
    adapter: TypeAdapter[
        Any
    ]  # checks what claims to be an input: JSON at the edges, and nowhere else
    # it works on the store of the pipeline's named memories alone; else on any, or the first
    at_home: bool = False
    # the field of the input whose text is embedded before it runs, where there is an embedder
    embeds: str = ""

    @property
    def noun(self) -> str:
        """What it works on: `records`."""
        return self.name.partition(".")[0]

    @property
    def verb(self) -> str:
        """What it does: `create`."""
        return self.name.partition(".")[2]


OPERATIONS: dict[str, Operation] = {}


def operation(
    name: str, *, access: Access, mutates: bool, at_home: bool = False, embeds: str = ""
) -> Callable[[Run], Run]:
    """Declares the function below as the operation `name`; a name used twice is an error."""

    def declare(run: Run) -> Run:
        if name in OPERATIONS:
            raise ValueError(f"two operations are named {name!r}")
        hints = get_type_hints(run, include_extras=True)
        taken = [hint for parameter, hint in hints.items() if parameter != "return"][1]

        def act(tx: Any, asked: Any, context: Context) -> Any:
            tx.records.acts(context.now_ms, context.actor, getattr(asked, "reason", ""))
            return run(tx, asked, context)

        taken.__pydantic_config__ = ConfigDict(extra="forbid", use_attribute_docstrings=True)
        OPERATIONS[name] = Operation(
            name,
            access,
            mutates,
            act,
            taken,
            hints["return"],
            (run.__doc__ or "").partition("\n")[0],
            TypeAdapter(taken),
            at_home,
            embeds,
        )
        return run

    return declare


def find_operation(name: str) -> Operation | None:
    """The operation of that name, for which its file alone is loaded; None where there is none."""
    module = name.replace(".", "_", 1)
    if (
        name not in OPERATIONS
        and module.isidentifier()
        and find_spec(f"memrelay.memory.operations.{module}") is not None
    ):
        importlib.import_module(f"memrelay.memory.operations.{module}")
    return OPERATIONS.get(name)


@cache
def all_operations() -> dict[str, Operation]:
    """Every operation by its name, in the order of the names."""
    for module in pkgutil.iter_modules(operations.__path__):
        importlib.import_module(f"memrelay.memory.operations.{module.name}")
    return dict(sorted(OPERATIONS.items()))


def json_type(told: dict[str, Any]) -> str:
    """The JSON type of a field by its schema, the first where there are several; "" where it may be
    anything."""
    return next((str(one["type"]) for one in [told, *told.get("anyOf", [])] if "type" in one), "")


def bound_input(
    operation: Operation, given: tuple[Any, ...], named: dict[str, Any]
) -> dict[str, Any]:
    """What a caller in Python gives, by the names of the input's fields, in whose order it may be
    given. Raises TypeError."""
    names = [field.name for field in fields(operation.input)]
    needed = {field.name for field in fields(operation.input) if field.default is MISSING}
    values = dict(zip(names, given, strict=False)) | named
    is_clear = len(given) <= len(names) and len(values) == len(given) + len(named)
    if not is_clear or values.keys() - set(names) or needed - values.keys():
        wanted = f", and needs {', '.join(sorted(needed))}" if needed else ""
        raise TypeError(f"{operation.name} takes {', '.join(names)}, each once{wanted}")
    return values


SAME_VERB = {
    "write": "create"
}  # said of records and entries by the blocks, and by those who read of them


class Noun(Generic[Bound]):
    """The operations on one noun as methods: `noun.create(...)`. A face for Python gives what each
    of them is."""

    def __init__(self, name: str, bind: Callable[[Operation], Bound]) -> None:
        """`bind` makes an operation what its name stands for here."""
        self._bound = {one.verb: bind(one) for one in all_operations().values() if one.noun == name}
        self._name = name

    def __getattr__(self, verb: str) -> Bound:
        """Raises AttributeError with the verbs that there are; `import_` is import, which is a word
        of Python's."""
        verb = SAME_VERB.get(verb, verb.removesuffix("_"))
        if verb.startswith("_") or verb not in self._bound:
            raise AttributeError(
                f"{self._name} has no operation {verb!r}; it has {', '.join(self._bound)}"
            )
        return self._bound[verb]

    def __dir__(self) -> list[str]:
        """For those who look what there is."""
        return sorted(self._bound)
