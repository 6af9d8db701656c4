"""This machine and this installation: SQLite, and how many files may be open."""

import resource

import apsw

from cli.doctor.finding import Finding, fault, ok, warning
from cli.settings import Settings

OLDEST_SQLITE = (3, 54, 0)  # what pyproject.toml asks for; its tests have run on no older one
HANDLES_A_STORE, OTHER_HANDLES = 3, 128


async def check_sqlite(settings: Settings) -> list[Finding]:
    """The SQLite that apsw carries."""
    version = apsw.sqlite_lib_version()
    remedy = "install what requirements.lock names: `make up` does"
    if "ENABLE_FTS5" not in apsw.compile_options:
        return [
            fault(
                "sqlite",
                f"SQLite {version} is built without FTS5, by which records are found",
                remedy,
            )
        ]
    if tuple(map(int, version.split(".")[:3])) < OLDEST_SQLITE:
        return [
            warning(
                "sqlite",
                f"SQLite {version} is older than {'.'.join(map(str, OLDEST_SQLITE))}",
                remedy,
            )
        ]
    return [ok("sqlite", f"SQLite {version} with FTS5 (apsw {apsw.apsw_version()})")]


async def check_handles(settings: Settings) -> list[Finding]:
    """Each open store takes three. What serves raises the limit as far as it may, so the hard one
    counts."""
    stores = settings.memory.open_files
    needed = stores * HANDLES_A_STORE + OTHER_HANDLES
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or limit >= needed:
        return [
            ok(
                "handles",
                f"{'any number of' if limit == resource.RLIM_INFINITY else limit} files may be open; "
                f"{stores} stores need {needed}",
            )
        ]
    return [
        warning(
            "handles",
            f"{limit} files may be open, and {stores} stores (memory.open_files) need {needed}",
            f"ulimit -Hn {needed} before Memrelay starts, or MEMRELAY_MEMORY__OPEN_FILES="
            f"{max(1, (limit - OTHER_HANDLES) // HANDLES_A_STORE)}",
        )
    ]
