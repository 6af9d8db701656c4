"""The ids of inputs: a message's entry, and the later steps of its cascade."""

import re
from typing import NamedTuple

# The id of an input without its entry, the message's number, and the digest.
PLACE = re.compile(r"((?:\.[0-9]+\+[0-9]+)*)\.([0-9]+)~[0-9a-f]{8}")
# A uuid7.
GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
# The last part of the id of a step that ran as its own input: the number of messages that its
# cascade had published, and its number among the steps of the cascade.
STEP = re.compile(r"\.([0-9]+)\+([0-9]+)$")


class Place(NamedTuple):
    """The place of a message: the path of its input, "" for the entry itself, and its number."""

    path: str
    number: int

    @property
    def order(self) -> tuple[list[int], int]:
        """Return a key that sorts a cascade before its later steps."""
        return [int(number) for number in re.findall(r"[0-9]+", self.path)], self.number


class Step(NamedTuple):
    """A step of a cascade that ran later: the path of the cascade that it continues, how many
    messages that had published before, and the step's number.
    """

    base: str
    published: int
    number: int


def parse_place(mid: str, entry: str, uid: str) -> Place | None:
    """Return the place of a message among those of an entry; None if it is not one of them."""
    found = PLACE.fullmatch(mid.removeprefix(f"{uid}/").removeprefix(entry))
    return None if found is None else Place(found[1], int(found[2]))


def parse_step(path: str) -> Step | None:
    """Return the step with this path; None for the entry itself."""
    found = STEP.search(path)
    return None if found is None else Step(path[: found.start()], int(found[1]), int(found[2]))


def entry_of(ident: str) -> str:
    """Return the entry in the id of an input or message, "" if there is none."""
    found = re.match(r"(?:[A-Za-z0-9_-]{1,64}/)?([0-9]{1,19}-[0-9]{1,19})(?:\.|$)", ident)
    return found[1] if found is not None else ""


def entry_of_guid(guid: str) -> str:
    """Return the entry from which a record's guid derives (`derive_guid`), "" for other guids.

    A guid from elsewhere may have the same form; then the entry does not exist.
    """
    if not GUID.fullmatch(guid):
        return ""
    high, low = int(guid[15:18], 16), int(guid[19:23], 16)
    return f"{int(guid[:8] + guid[9:13], 16)}-{high << 12 | low >> 2 & 0xFFF}"
