"""The architecture rules hold for the code, and each rule finds a planted violation."""

import hashlib
import subprocess
from collections.abc import Callable, Iterable, Iterator

import pytest

from tests.architecture import imports, models, sizes
from tests.architecture.source import (
    PACKAGES,
    ROOT,
    YARDSTICK,
    Source,
    api_sources,
    packages,
    sources,
)

# Links to the packages that users look for first.
LINKS = ("blocks", "pipelines", "worker")
ROOT_FOLDERS = {
    *(*LINKS, "memrelay", "tests", "benchmarks", "deploy", "docs", "examples"),
    *("clients", "skills", "editor"),
    *(".ci", ".github"),
}
ROOT_FILES = {
    *("README.md", "CHANGELOG.md", "LICENSE", "config.yaml", "Procfile", "Makefile"),
    *("pyproject.toml", "MANIFEST.in", "requirements.lock", ".gitignore"),
    *("Dockerfile", ".dockerignore", "compose.yaml", "mkdocs.yml", ".pre-commit-config.yaml"),
    *("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"),
}
# The two outer edges: the worker's message boundary and the HTTP error middleware.
BROAD_EXCEPT_ALLOWED = ("memrelay/worker/run/batch.py", "memrelay/web/server/errors.py")
# The hook of coding tools runs without Memrelay, and loads what few events need when they come.
HOOK = "memrelay/capture/hook.py"
ENVIRONMENT_ALLOWED = ("memrelay/cli/settings.py", HOOK)
# Optional heavy parts only, each with its reason next to the import.
INNER_IMPORTS_ALLOWED = ("memrelay/memory/engine/store.py", HOOK)
# Metaphors that were renamed, by package.
RENAMED = {
    "worker": "tenure overlooked foresight patience quarantine surroundings upkeep tally usable "
    "share spread agenda settlement letters asks repeats eraser watch",
    "bus": "line echo patience roll kinds surpassing renewal wire sweeping rights remaking",
    "memory": "likeness alike guard since order voice answers unsaid pieces figures plain matching "
    "curves grammar recall scene nothing asking rereading spreading nearest sketch expected room",
    "web": "door guard glance admission signature malformed parts described",
    "cli": "gathered_letters handles written speech",
}

YARDSTICK_SHA256 = "32b5f77a987e97549f42c8099b4e2a313f500bb9b5beddaac2343654748f706c"

Rule = Callable[[Source], list[str]]


@pytest.fixture(scope="module", autouse=True)
def release_trees() -> Iterator[None]:
    """Free the syntax trees, hundreds of MB, which would slow all later tests of the process."""
    yield
    sources.cache_clear()


def product(*, but: Iterable[str] = ()) -> list[Source]:
    return [source for source in packages(*PACKAGES) if source.path not in but]


def everything(*, but: Iterable[str] = ()) -> list[Source]:
    others = (*api_sources(), *sources("tests", "benchmarks"))
    return product(but=but) + [source for source in others if source.path not in but]


def hold(rule: Rule, over: Iterable[Source]) -> None:
    files = list(over)
    faults = [fault for source in files for fault in rule(source)]
    assert files, "the rule looked at no file"
    assert not faults, "\n".join(["", *faults])


def strangers(tracked: Iterable[str]) -> list[str]:
    return sorted({path.split("/")[0] for path in tracked} - ROOT_FOLDERS - ROOT_FILES)


def tracked_files() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [path for path in listed.stdout.split("\0") if path and (ROOT / path).exists()]


def renamed_modules(paths: Iterable[str]) -> list[str]:
    found = []
    for path in paths:
        _, package, rest = path.split("/", 2)
        names = RENAMED.get(package, "").split()
        found += [path for part in rest.removesuffix(".py").split("/") if part in names]
    return found


def test_a_package_imports_only_the_packages_to_its_right() -> None:
    hold(imports.imports_of_the_wrong_package, product())


def test_a_package_imports_no_library_of_another_package() -> None:
    hold(imports.imports_of_a_forbidden_library, product())


def test_only_the_composition_root_imports_a_block_by_name() -> None:
    blocks = imports.block_modules(packages("blocks"))

    assert "memrelay.blocks.memory_write" in blocks
    hold(lambda source: imports.imports_of_a_block_by_name(source, blocks), product())


def test_the_core_and_the_interfaces_know_no_model() -> None:
    hold(models.imports_of_models, product())


def test_a_model_imports_the_core_and_no_other_model() -> None:
    hold(models.imports_of_a_model, product())


def test_modules_of_memory_are_loaded_by_name_in_one_place() -> None:
    hold(models.imports_of_the_manifest_loader, product())


def test_the_text_of_search_imports_nothing_above_it() -> None:
    hold(models.imports_of_the_text_of_search, product())


def test_the_web_server_imports_nothing_above_it() -> None:
    hold(imports.imports_above_the_server, packages("web"))


def test_every_import_begins_with_memrelay() -> None:
    hold(imports.short_imports, everything())
    hold(
        imports.short_module_strings,
        everything(but=["tests/test_architecture.py", "tests/acceptance/test_installed.py"]),
    )


def test_imports_are_absolute() -> None:
    hold(imports.relative_imports, everything())


def test_imports_are_at_the_top() -> None:
    hold(sizes.imports_in_functions, everything(but=INNER_IMPORTS_ALLOWED))


def test_no_module_imports_itself_through_others() -> None:
    assert imports.import_cycles([*product(), *api_sources()]) == []


def test_nothing_is_mocked() -> None:
    hold(imports.imports_of_mocks, everything())


def test_a_function_body_has_at_most_60_lines() -> None:
    hold(sizes.long_functions, everything())


def test_a_file_has_at_most_900_lines() -> None:
    hold(sizes.long_files, everything())


def test_code_nests_at_most_three_deep() -> None:
    hold(sizes.deep_nesting, everything())


def test_a_function_takes_few_positional_parameters() -> None:
    hold(sizes.many_parameters, everything())


def test_broad_excepts_are_only_at_the_two_outer_edges() -> None:
    assert len(BROAD_EXCEPT_ALLOWED) == 2

    hold(sizes.broad_excepts, everything(but=BROAD_EXCEPT_ALLOWED))


def test_the_environment_is_read_in_one_file() -> None:
    hold(sizes.reads_of_the_environment, product(but=ENVIRONMENT_ALLOWED))


def test_no_module_keeps_a_metaphor_as_its_name() -> None:
    assert renamed_modules(source.path for source in product()) == []


def test_the_links_at_the_root_lead_into_memrelay() -> None:
    links = {path.name: path.readlink().as_posix() for path in ROOT.iterdir() if path.is_symlink()}

    assert links == {name: f"memrelay/{name}" for name in LINKS}
    assert not [path for path in (ROOT / "memrelay").rglob("*") if path.is_symlink()]


def test_the_yardstick_is_unchanged() -> None:
    found = hashlib.sha256()
    for file in sorted(path for path in YARDSTICK.iterdir() if path.is_file()):
        found.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")

    assert found.hexdigest() == YARDSTICK_SHA256


def test_the_root_holds_only_the_listed_files_and_folders() -> None:
    assert strangers(tracked_files()) == []


def test_every_package_has_its_rules() -> None:
    assert tuple(imports.RULES) == PACKAGES


def test_a_stranger_at_the_root_is_found() -> None:
    assert strangers(["memrelay/cli/main.py", "README.md", "notes.txt", "attic/x.py"]) == [
        "attic",
        "notes.txt",
    ]


def test_a_renamed_module_is_found() -> None:
    assert renamed_modules(
        [
            "memrelay/worker/run/tenure.py",
            "memrelay/memory/recall/x.py",
            "memrelay/worker/shared.py",
        ]
    ) == [
        "memrelay/worker/run/tenure.py",
        "memrelay/memory/recall/x.py",
    ]


def test_an_import_cycle_is_found() -> None:
    cycle = [
        Source.of("memrelay/bus/a.py", "from memrelay.bus.b import f"),
        Source.of("memrelay/bus/b.py", "import memrelay.bus.c"),
        Source.of("memrelay/bus/c.py", "from memrelay.bus import a"),
        Source.of("memrelay/bus/d.py", "from memrelay.bus.a import g"),
    ]

    (found,) = imports.import_cycles(cycle)

    assert found.count("->") == 3


def test_imports_for_type_checks_make_no_cycle() -> None:
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from memrelay.bus.b import f"
    files = [
        Source.of("memrelay/bus/a.py", typed),
        Source.of("memrelay/bus/b.py", "from memrelay.bus.a import g"),
    ]

    assert imports.import_cycles(files) == []


def lines(count: int) -> str:
    return "\n".join(["    x = 1"] * count)


IFS = "if a:\n if b:\n  if c:\n   pass\n"
MODEL = "memrelay.memory.models.agent_memory"
BLOCKS = {"memrelay.blocks.memory_write"}


def no_block_by_name(source: Source) -> list[str]:
    return imports.imports_of_a_block_by_name(source, BLOCKS)


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (imports.imports_of_the_wrong_package, "memrelay/memory/x.py", "import memrelay.bus.keys"),
        (
            imports.imports_of_the_wrong_package,
            "memrelay/memory/x.py",
            "from tests import builders",
        ),
        (
            imports.imports_of_the_wrong_package,
            "memrelay/memory/x.py",
            "from memrelay import connect",
        ),
        (
            imports.imports_of_the_wrong_package,
            "memrelay/blocks/x.py",
            "from memrelay.bus import codec",
        ),
        (
            imports.imports_of_the_wrong_package,
            "memrelay/pipelines/x.py",
            "def f():\n import memrelay.web",
        ),
        (
            imports.imports_of_the_wrong_package,
            "memrelay/worker/x.py",
            "from memrelay.web.api import y",
        ),
        (
            imports.imports_of_the_wrong_package,
            "memrelay/client/x.py",
            "from memrelay.web.api import operations",
        ),
        (
            imports.imports_of_the_wrong_package,
            "memrelay/embedded/x.py",
            "from memrelay.client.http import Client",
        ),
        (
            imports.imports_of_the_wrong_package,
            "memrelay/integrations/x.py",
            "import memrelay.worker.service",
        ),
        (
            imports.imports_of_a_forbidden_library,
            "memrelay/memory/x.py",
            "import redis.asyncio as redis",
        ),
        (imports.imports_of_a_forbidden_library, "memrelay/blocks/x.py", "from aiohttp import web"),
        (imports.imports_of_a_forbidden_library, "memrelay/pipelines/x.py", "import apsw"),
        (
            no_block_by_name,
            "memrelay/worker/x.py",
            "from memrelay.blocks.memory_write import write",
        ),
        (no_block_by_name, "memrelay/blocks/y.py", "from memrelay.blocks import memory_write"),
        (models.imports_of_models, "memrelay/memory/engine/x.py", f"import {MODEL}.facts"),
        (models.imports_of_models, "memrelay/memory/records/x.py", f"from {MODEL} import facts"),
        (models.imports_of_models, "memrelay/memory/search/x.py", f"import {MODEL}"),
        (models.imports_of_models, "memrelay/memory/operations.py", f"import {MODEL}"),
        (models.imports_of_models, "memrelay/worker/run/x.py", f"from {MODEL}.facts import y"),
        (models.imports_of_models, "memrelay/web/api/x.py", f"from {MODEL}.facts import y"),
        (models.imports_of_models, "memrelay/cli/x.py", f"from {MODEL}.facts import y"),
        (models.imports_of_a_model, "memrelay/memory/models/recipes/x.py", f"import {MODEL}"),
        (
            models.imports_of_a_model,
            "memrelay/memory/models/recipes/x.py",
            "import memrelay.memory.transfer.export",
        ),
        (models.imports_of_the_manifest_loader, "memrelay/memory/x.py", "import importlib"),
        (
            models.imports_of_the_text_of_search,
            "memrelay/memory/search/text/x.py",
            f"import {MODEL}.facts",
        ),
        (imports.short_imports, "memrelay/bus/x.py", "from memory import records"),
        (imports.short_imports, "tests/x.py", "import cli.main"),
        (imports.short_module_strings, "memrelay/bus/x.py", "import_module('memory.x')"),
        (imports.short_module_strings, "memrelay/bus/x.py", "import_module(f'memory.x.{name}')"),
        (imports.short_module_strings, "memrelay/bus/x.py", "importlib.util.find_spec('cli.main')"),
        (imports.short_module_strings, "tests/x.py", "run([python, '-m', 'cli.main', 'up'])"),
        (imports.relative_imports, "memrelay/bus/x.py", "from . import keys"),
        (
            imports.imports_above_the_server,
            "memrelay/web/server/x.py",
            "from memrelay.web.auth import access",
        ),
        (
            imports.imports_above_the_server,
            "memrelay/web/server/x.py",
            "def f():\n import memrelay.web.models.soat",
        ),
        (imports.imports_of_mocks, "tests/x.py", "from unittest import mock"),
        (imports.imports_of_mocks, "tests/x.py", "from unittest.mock import Mock"),
        (
            sizes.imports_in_functions,
            "memrelay/bus/x.py",
            "def f():\n    def g():\n        import os",
        ),
        (sizes.long_functions, "memrelay/bus/x.py", f"@d\ndef f():\n    'doc'\n{lines(61)}"),
        (sizes.long_files, "memrelay/bus/x.py", "\n" * 901),
        (sizes.long_files, "tests/x.py", "\n" * 901),
        (sizes.deep_nesting, "memrelay/bus/x.py", f"{IFS}   while d: pass"),
        (sizes.deep_nesting, "memrelay/bus/x.py", f"{IFS}  else:\n   if d: pass"),
        (sizes.many_parameters, "memrelay/bus/x.py", "def f(a, b, /, c, d, e, g): pass"),
        (sizes.broad_excepts, "memrelay/bus/x.py", "try: f()\nexcept: pass"),
        (sizes.broad_excepts, "memrelay/bus/x.py", "try: f()\nexcept (OSError, Exception): pass"),
        (sizes.broad_excepts, "memrelay/bus/x.py", "with suppress(BaseException): f()"),
        (sizes.reads_of_the_environment, "memrelay/bus/x.py", "import os\nos.getenv('A')"),
        (sizes.reads_of_the_environment, "memrelay/bus/x.py", "from os import environ"),
    ],
)
def test_a_violation_is_found_with_its_place(rule: Rule, path: str, text: str) -> None:
    (fault,) = rule(Source.of(path, text))

    assert fault.startswith(f"{path}:")
    assert fault.split(":")[1].isdecimal()


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (
            imports.imports_of_the_wrong_package,
            "memrelay/blocks/x.py",
            "from memrelay.bus.message import Message\nimport memrelay.memory.search, re2",
        ),
        (
            imports.imports_of_the_wrong_package,
            "memrelay/blocks/x.py",
            "from memrelay.bus import message\nfrom memrelay.blocks.contract import block",
        ),
        (
            imports.imports_of_the_wrong_package,
            "memrelay/cli/x.py",
            "import memrelay.worker.service, memrelay.web.api",
        ),
        (
            imports.imports_of_the_wrong_package,
            "memrelay/client/x.py",
            "from memrelay.web.api.operation_routes import route_of",
        ),
        (
            imports.imports_of_a_forbidden_library,
            "memrelay/bus/x.py",
            "import hiredis, redistribute",
        ),
        (no_block_by_name, "memrelay/worker/x.py", "from memrelay.blocks.registry import find"),
        (models.imports_of_models, "memrelay/cli/commands/x.py", f"import {MODEL}.facts"),
        (models.imports_of_models, "memrelay/blocks/x.py", f"import {MODEL}.facts"),
        (models.imports_of_a_model, f"{MODEL.replace('.', '/')}/x.py", f"import {MODEL}.facts"),
        (
            models.imports_of_a_model,
            "memrelay/memory/models/recipes/x.py",
            "from memrelay.memory.models.named_memories.knowledge import y",
        ),
        (no_block_by_name, "memrelay/cli/x.py", "import memrelay.blocks.memory_write"),
        (imports.short_imports, "memrelay/cli/x.py", "import memrelay.bus.keys, cliff, webbrowser"),
        (imports.short_module_strings, "memrelay/bus/x.py", "import_module('memrelay.memory.x')"),
        (
            imports.imports_above_the_server,
            "memrelay/web/server/x.py",
            "from memrelay.web.server.errors import Problem\nimport memrelay.bus.keys",
        ),
        (
            imports.imports_above_the_server,
            "memrelay/web/auth/x.py",
            "from memrelay.web.services import get_services",
        ),
        (
            sizes.imports_in_functions,
            "memrelay/bus/x.py",
            "try:\n import uvloop\nexcept ImportError: pass",
        ),
        (sizes.long_functions, "memrelay/bus/x.py", f"@d\ndef f():\n    'doc'\n\n{lines(60)}"),
        (sizes.long_functions, "memrelay/bus/x.py", "def f():\n    'doc'"),
        (
            sizes.deep_nesting,
            "memrelay/bus/x.py",
            f"{IFS}  elif d: pass\n  elif e: pass\n  else: pass",
        ),
        (sizes.deep_nesting, "memrelay/bus/x.py", f"{IFS}   def f():\n    for x in y: pass"),
        (
            sizes.many_parameters,
            "memrelay/bus/x.py",
            "def f(self, a, b, c, d, e, *args, g, **more): pass",
        ),
        (sizes.broad_excepts, "memrelay/bus/x.py", "try: f()\nexcept (OSError, ValueError): pass"),
        (
            sizes.reads_of_the_environment,
            "memrelay/bus/x.py",
            "def f(environ): return environ['A']",
        ),
    ],
)
def test_allowed_code_passes(rule: Rule, path: str, text: str) -> None:
    assert rule(Source.of(path, text)) == []


def test_a_block_file_is_known_by_its_decorator() -> None:
    block = Source.of(
        "memrelay/blocks/memory_write.py", '@block("memory_write", access="write")\ndef f(): 0'
    )
    contract = Source.of(
        "memrelay/blocks/contract.py", "def block(name): pass\n@dataclass()\nclass Call: 0"
    )

    assert imports.block_modules([block, contract]) == BLOCKS
