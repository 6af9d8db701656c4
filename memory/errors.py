"""What can go wrong in memory.

MemoryFault
├── Refused             the input breaks a rule; nothing was changed; the text names rule and remedy
│   ├── BadMemoryId
│   ├── BadTags
│   ├── ResultTooLarge
│   ├── NotThere        no record has that guid
│   └── VersionDiffers  the record has changed since the caller looked
├── StoreFenced         another worker took the store over: nothing was changed, and this one may
not go on
├── StoreBusy           locked or out of space for now: the same again later may succeed
├── NotReplaced         a store is there that was not found to be damaged; nothing was changed
├── BadBackup           a folder that is no whole backup
├── BadExport           a file that is no whole export
├── StoreBroken         the file cannot be used; the text says which and what to do
│   └── StoreDamaged    it was a store, and something has changed or lost a part of it
├── RecordDamaged       one record cannot be read; the text says which and what to do
├── EmbeddingFault      no vectors can be made; the text says why and what to do
│   ├── EmbeddingLater  not for now: the same again later may succeed
│   └── TextRefused     not of these texts
├── VectorAwaited       a vector is being made elsewhere: the same again shortly
└── NotAsExpected       another bundle is in service than the change was meant for; nothing was
changed
"""

from typing import ClassVar


class MemoryFault(Exception):
    """Anything that memory could not do."""


class Refused(MemoryFault, ValueError):
    """The input breaks a rule. Raised before anything is changed, so the transaction may go on."""

    code: ClassVar[str] = "refused"  # by which a face tells the kinds apart


class BadMemoryId(Refused):
    """A `memory_id` that is missing, malformed or leaves the memory root."""


class BadTags(Refused):
    """Tags that are neither a JSON array of strings nor a comma list."""


class ResultTooLarge(Refused):
    """The result would not fit into one message."""

    code = "too_large"


class NotThere(Refused):
    """What is asked for is not in the store."""

    code = "not_found"


class VersionDiffers(Refused):
    """The record is not as it was when the caller looked: look again, and decide anew."""

    code = "version_differs"


class StoreFenced(MemoryFault):
    """Another owner took the store over. `epoch` is the one under which it did."""

    def __init__(self, path: str, epoch: int) -> None:
        """`path` is the store's file."""
        super().__init__(f"{path} has an owner of epoch {epoch}, which came later than this worker")
        self.epoch = epoch


class NotReplaced(MemoryFault):
    """A restore or a salvage would take the place of a store that works."""


class BadBackup(MemoryFault):
    """A backup that is not there, incomplete or changed since."""


class BadExport(MemoryFault):
    """A file that is no export, or was cut or changed since."""


class StoreBusy(MemoryFault):
    """The store is locked by another process, or the disk is full: try again later."""


class StoreBroken(MemoryFault):
    """The store file is damaged, newer than this program, or no store at all."""


class RecordDamaged(MemoryFault):
    """A record is not what was written, and cannot be told. The others can."""


class EmbeddingFault(MemoryFault):
    """The embedder is not there, is not what it should be, or refuses."""


class EmbeddingLater(EmbeddingFault):
    """The embedder does not answer, or is asked too much: try again later."""

    def __init__(self, message: str, after_s: float = 0.0) -> None:
        """`after_s` is when, where it says so."""
        super().__init__(message)
        self.after_s = after_s


class VectorAwaited(MemoryFault):
    """The vector of a question is being made: the same again, after so many seconds, will find
    it."""

    def __init__(self, after_s: float) -> None:
        """`after_s` is when it may be there."""
        super().__init__("the vector of the question is being made")
        self.after_s = after_s


class TextRefused(EmbeddingFault):
    """The embedder does not take these texts, or one of them."""


class NotAsExpected(MemoryFault):
    """A pipeline is not what the change of it was meant for: look again, and decide anew."""

    def __init__(self, uid: str, active: str) -> None:
        """`active` is the hash of the bundle in service, "" where there is none."""
        super().__init__(
            f"pipeline {uid} is not in service"
            if not active
            else f"pipeline {uid} is in service with the "
            f"bundle {active}, not the one that this was meant to replace; look at it and decide anew"
        )
        self.uid, self.active = uid, active


class StoreDamaged(StoreBroken):
    """The store lost what it had. It is left as it is until it is restored or salvaged."""

    noted = False  # whether a note beside the file says so
