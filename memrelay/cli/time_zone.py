"""The time zone of this installation, which a deploy gives to bundles without one."""

from pathlib import Path

from memrelay.cli.settings import Settings, process_environment
from memrelay.memory.control.catalog import catalog_exists
from memrelay.memory.engine.time_zones import DEFAULT_ZONE, check_zone
from memrelay.memory.errors import Refused

# The file in the memory root with the zone of the machine on which `memrelay up` first ran.
FILE = "timezone"
LOCAL_TIME, ZONE_NAME = Path("/etc/localtime"), Path("/etc/timezone")
# The folder of the database, whose paths end with the names.
DATABASE = "/zoneinfo/"
NAMES_OF_UTC = ("Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "UCT", "Universal", "Zulu")


def find_default_zone(settings: Settings) -> str:
    """Return `memory.timezone`, else the zone that `memrelay up` wrote, else UTC."""
    return settings.memory.timezone or _read_zone(settings.memory.root / FILE) or DEFAULT_ZONE


def write_machine_zone(settings: Settings) -> None:
    """Write the machine's zone into the memory root of a fresh installation. Raises OSError."""
    root = settings.memory.root
    if settings.memory.timezone or catalog_exists(root, settings.storage.url):
        return
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    (root / FILE).write_text(f"{find_machine_zone()}\n", encoding="ascii")


def find_machine_zone() -> str:
    """Return the zone of this process: that of the variable TZ, else the machine's, else UTC."""
    candidates = (
        process_environment().get("TZ", "").removeprefix(":"),
        str(LOCAL_TIME.resolve()),
        _read_text(ZONE_NAME),
    )
    return next(filter(None, map(_to_name, candidates)), DEFAULT_ZONE)


def _to_name(text: str) -> str:
    """Return the zone in a name or a path of the database, "" if there is none."""
    name = text.partition(DATABASE)[2] or text
    try:
        return DEFAULT_ZONE if name in NAMES_OF_UTC else check_zone(name)
    except Refused:
        return ""


def _read_zone(file: Path) -> str:
    return _to_name(_read_text(file))


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
