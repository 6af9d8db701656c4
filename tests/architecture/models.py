"""The rules of the memory models: the engine, records and search know none, and a model can be
removed.
"""

from tests.architecture.imports import within
from tests.architecture.source import Source

MEMORY = "memrelay.memory"
MODELS = f"{MEMORY}.models"
CORE = ("engine", "records", "search")
# What a model may import of memory, besides itself.
SHARED = (
    *(
        "endpoint_rules",
        "errors",
        "field_descriptions",
        "operations",
        "policy_rules",
        "view_rules",
        "seal_keys",
        "stopped_writes",
        "validation",
    ),
)
BELOW = tuple(f"{MEMORY}.{name}" for name in (*CORE, *SHARED))
# The imports between models: recipes put items and entries of the others into a context, and
# rehearsals run kept inputs. Consolidation compares entries and proposes for review. The context of
# a captured project leaves out facts that were extracted from answers of models.
BETWEEN = {
    "recipes": ("named_memories", "shared_stores"),
    "rehearsals": ("inputs",),
    "capture": ("extraction",),
    "consolidation": ("named_memories", "reviews"),
}
# Packages and folders that reach models only through their manifests and operations.
WITHOUT_MODELS = (
    *("worker", "bus", "pipelines"),
    *("web/server", "web/auth", "web/api"),
)
# Folders there that exist only for one model: a face in its manifest.
FACES = ("memrelay/worker/endpoints/",)
# The command line may import models where a command is about them.
CLI, COMMANDS = "memrelay/cli/", "memrelay/cli/commands/"


def imports_of_models(source: Source) -> list[str]:
    """Only models, transfer, blocks, agents, commands and the paths of a model import models."""
    if not knows_no_model(source.path):
        return []
    return [
        source.at(
            node, f"{source.path} may not import {name}; ask the manifests (engine/models.py)"
        )
        for node, name in source.imports()
        if within(name, [MODELS])
    ]


def knows_no_model(path: str) -> bool:
    """Return whether a file must work without any model."""
    core = [f"memrelay/memory/{name}/" for name in CORE]
    others = [f"memrelay/{name}/" for name in WITHOUT_MODELS]
    if path.startswith(FACES):
        return False
    if path.startswith(CLI):
        return not path.startswith(COMMANDS)
    return path.startswith((*core, *others)) or path == "memrelay/memory/operations.py"


def imports_of_a_model(source: Source) -> list[str]:
    """A model imports the engine, records and search, and no other model outside BETWEEN."""
    model = model_name(source.path)
    if not model:
        return []
    others = [f"{MODELS}.{name}" for name in (model, *BETWEEN.get(model, ()))]
    return [
        source.at(node, f"the model {model} may not import {name}")
        for node, name in source.imports()
        if within(name, [MEMORY]) and not within(name, (*BELOW, *others))
    ]


def model_name(path: str) -> str:
    """Return the model of a file below memory/models, "" for other files."""
    folder, _, rest = path.partition("memrelay/memory/models/")
    return rest.partition("/")[0] if not folder and "/" in rest else ""


def imports_of_the_manifest_loader(source: Source) -> list[str]:
    """In memory, modules are loaded by name in one place, except optional heavy libraries."""
    if not source.path.startswith("memrelay/memory/") or source.path in LOADERS:
        return []
    return [
        source.at(node, "importlib is used in engine/models.py; call its `load`")
        for node, name in source.imports()
        if name in ("importlib", "importlib.import_module")
    ]


LOADERS = ("memrelay/memory/engine/models.py",)


def imports_of_the_text_of_search(source: Source) -> list[str]:
    """Words, stems and languages are below everything that uses them."""
    if not source.path.startswith("memrelay/memory/search/text/"):
        return []
    text, errors = f"{MEMORY}.search.text", f"{MEMORY}.errors"
    return [
        source.at(node, f"{source.path} may not import {name}; it is below the rest of memory")
        for node, name in source.imports()
        if within(name, [MEMORY]) and not within(name, [text, errors])
    ]
