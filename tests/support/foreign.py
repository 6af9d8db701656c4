"""Files of other systems, and what their sources read."""

from pathlib import Path

from memrelay.memory.transfer.importers.run import detect_sources
from memrelay.memory.transfer.importers.source import SourceInput, SourceItem, all_sources

FIXTURES = Path(__file__).parents[1] / "memory" / "transfer" / "importers" / "fixtures"


def read_file(source: str, path: Path, notes: list[str] | None = None) -> list[SourceItem]:
    """Return all items and faults of a file."""
    note = (lambda _: None) if notes is None else notes.append
    return list(all_sources()[source].read(SourceInput(path, note=note)))


def sources_of(path: Path) -> list[str]:
    """Return the names of the sources that detect a file."""
    return [source.name for source in detect_sources(path)]
