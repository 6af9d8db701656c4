"""The records that were shown, so that their guids need not be typed."""

from typing import Any

from cli.readable import is_record

MOST = 500
EXCERPT = 40  # characters of a content


class Seen:
    """Guids with the beginning of what they stand for."""

    def __init__(self) -> None:
        """Nothing was shown yet."""
        self._contents: dict[str, str] = {}

    def note(self, value: Any) -> None:
        """A result that is shown."""
        for one in value if isinstance(value, list) else [value]:
            if is_record(one):
                self._add(one["guid"], one["content"][:EXCERPT])
            elif isinstance(one, dict) and isinstance(one.get("guid"), str):
                self._add(one["guid"], self._contents.get(one["guid"], ""))

    def having(self, part: str) -> list[tuple[str, str]]:
        """(guid, content) of those that have this in their guid, the newest first."""
        return [
            (guid, content) for guid, content in reversed(self._contents.items()) if part in guid
        ]

    def _add(self, guid: str, content: str) -> None:
        self._contents.pop(guid, None)
        self._contents[guid] = content
        if len(self._contents) > MOST:
            del self._contents[next(iter(self._contents))]
