"""The exceptions of the memory package.

MemoryFault
├── Refused             invalid input; nothing changed; the message names the rule and the remedy
│   ├── BadMemoryId
│   ├── BadTags
│   ├── ResultTooLarge
│   ├── SearchTooLong         the search exceeded its time limit
│   ├── RecordNotFound        no record has that guid
│   ├── VersionConflict  the record has changed since the caller looked
│   ├── Denied           the caller has no access of the needed level
│   ├── KeyTaken         another entry has the key
│   ├── NameTaken        another object has the id or the name
│   ├── PolicyStop       a policy of the store stops the write
│   ├── ReviewFull       too many writes to the store wait for review
│   ├── InvalidInput     several fields are invalid; `faults` lists all of them
│   ├── TooOld          the state of a past time is no longer kept
│   ├── NotText          only a text can be edited
│   ├── TextNotUnique    a text to replace is missing, or occurs several times
│   ├── BadValue         a value is nested too deeply, or no JSON
│   ├── ValueTooLarge    a value exceeds the limit of its kind
│   └── TooManyKeys      the store has the maximum number of keys
├── SealKeyMissing      no seal key for a value is available; a retry may succeed
├── SealBroken          a sealed value does not open
├── StoreReadOnly       code changed a store that it has only for reads
├── StoreFenced         another worker owns the store; nothing changed, this worker must stop
├── StoreBusy           locked or out of space; a retry may succeed
├── NotReplaced         an intact store exists; nothing changed
├── BadBackup           the folder is missing, incomplete or no backup
├── BadExport           the file is incomplete or no export
├── StoreBroken         the file is unusable; the message names it and the remedy
│   └── StoreDamaged    a store that is corrupted or lost data
├── RecordDamaged       one record is unreadable; the message names it and the remedy
├── EmbeddingFault      no vectors can be created; the message names the reason and the remedy
│   ├── EmbeddingUnavailable  the embedder is unavailable; a retry may succeed
│   └── TextRejected     the embedder rejects these texts
├── VectorPending       a vector is being created; retry shortly
└── PreconditionNotMet       the active bundle is not the expected one; nothing changed
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple


class MemoryFault(Exception):
    """Base class of all errors of the memory package."""


class Refused(MemoryFault, ValueError):
    """The input is invalid.

    It is raised before anything changes, so the transaction may continue.
    """

    # The API returns this code to clients.
    code: ClassVar[str] = "refused"


class BadMemoryId(Refused):
    """The `memory_id` is missing, malformed or leaves the memory root."""


class BadTags(Refused):
    """The tags are neither a JSON array of strings nor a comma-separated list."""


class ResultTooLarge(Refused):
    """The result does not fit into one message."""

    code = "too_large"


class SearchTooLong(Refused):
    """The search exceeded its time limit. There is no partial result."""


class RecordNotFound(Refused):
    """The requested object is not in the store."""

    code = "not_found"


class VersionConflict(Refused):
    """The record changed since the caller read it. Read it again before you change it."""

    code = "version_differs"


class Denied(Refused):
    """The caller's access to the store is lower than needed. The store may not even exist."""

    code = "denied"


class KeyTaken(Refused):
    """Another entry has the key."""


class NameTaken(Refused):
    """Another object has the id or the name."""

    code = "name_taken"


class PolicyStop(Refused):
    """A policy of the store stops a write. Its message names the policy.

    `action` is "refuse", "drop" or "review". `candidate` is the record as it would be, a State
    after all redactions, and `before` its present state. It is raised before that record changes.
    The call may have changed others (memory/admission.py). `findings` has what policies found
    in it, each with its replacement. `call` is (operation, input) of a block's write, None if the
    record tells it.
    """

    code = "refused_by_policy"

    def __init__(self, policy: str, action: str, candidate: Any, before: Any = None) -> None:
        super().__init__(
            f"the policy {policy!r} of this store does not allow the write; change its text, or "
            "ask the owner of the store (docs/trust.md)"
        )
        self.policy, self.action = policy, action
        self.candidate, self.before = candidate, before
        self.findings: Mapping[str, str] = {}
        self.call: tuple[str, dict[str, Any]] | None = None


class StoppedTooLate(Exception):
    """A call was refused after it had changed something. Roll back, and run it again."""


class ReviewFull(Refused):
    """A policy holds a write for review, and the store has the maximum number of such writes."""

    code = "review_full"


class DeferredMatch(Exception):
    """Policies have to see the records of a transaction one by one. Roll it back, and run it again:
    they do then.
    """


class Fault(NamedTuple):
    """An error in the input.

    `path` is a JSON pointer into the input. `code` names the rule; docs/recipes.md lists those of
    recipes.
    """

    path: str
    code: str
    message: str


class InvalidInput(Refused):
    """Several fields are invalid. `faults` lists all of them, and a traceback shows them."""

    code = "invalid_input"

    def __init__(self, message: str, faults: Sequence[Fault]) -> None:
        super().__init__(message)
        self.faults = tuple(faults)
        for fault in self.faults:
            self.add_note(f"{fault.path}: {fault.message}")


class TooOld(Refused):
    """The state of a store at that time is no longer known."""

    code = "too_old"


class NotText(Refused):
    """The value of an entry is not a text. `sort` is its type: number, boolean, object or null."""

    def __init__(self, message: str, sort: str) -> None:
        super().__init__(message)
        self.sort = sort


class TextNotUnique(Refused):
    """The text to replace occurs `count` times, not once."""

    def __init__(self, message: str, count: int) -> None:
        super().__init__(message)
        self.count = count


class BadValue(Refused):
    """JSON cannot express a value, or it is nested too deeply. Interfaces show the message."""


class ValueTooLarge(Refused):
    """A value exceeds the size limit of its kind."""

    code = "value_too_large"


class TooManyKeys(Refused):
    """The store has the maximum number of keys."""

    code = "too_many_keys"


class SealKeyMissing(MemoryFault):
    """The seal key of a value is not configured or cannot be read."""


class SealBroken(MemoryFault):
    """A sealed value does not open: it was changed, or belongs to another place."""


class StoreReadOnly(MemoryFault):
    """Code changes a store that it has only for reads. The input fails and changes nothing."""


class StoreFenced(MemoryFault):
    """Another worker took over the store file at `path` under a later fencing `epoch`."""

    def __init__(self, path: str, epoch: int) -> None:
        super().__init__(f"{path} is owned by another worker, with the later epoch {epoch}")
        self.epoch = epoch


class NotReplaced(MemoryFault):
    """A restore or salvage would replace a working store."""


class BadBackup(MemoryFault):
    """The backup is missing, incomplete or changed."""


class BadExport(MemoryFault):
    """The file is not an export, or it was truncated or changed."""


class StoreBusy(MemoryFault):
    """The store is locked by another process, or the disk is full. Retry later."""


class StoreBroken(MemoryFault):
    """The store file is damaged, written by a newer Memrelay, or not a store."""


class RecordDamaged(MemoryFault):
    """A record differs from what was written and cannot be read. Other records can."""


class EmbeddingFault(MemoryFault):
    """The embedder is missing, misconfigured, or rejects the request."""


class EmbeddingUnavailable(EmbeddingFault):
    """The embedder does not respond or is overloaded. Retry later.

    `after_s` is the delay that the embedder requested, 0 if it named none.
    """

    def __init__(self, message: str, after_s: float = 0.0) -> None:
        super().__init__(message)
        self.after_s = after_s


class VectorPending(MemoryFault):
    """The vector of a query is being created. A retry after `after_s` seconds finds it.

    `is_loading`: the embedder of the process is loading first.
    """

    def __init__(self, after_s: float, *, is_loading: bool = False) -> None:
        super().__init__("the vector of the query is being created; retry shortly")
        self.after_s, self.is_loading = after_s, is_loading


class TextRejected(EmbeddingFault):
    """The embedder rejects one or more of these texts."""


class PreconditionNotMet(MemoryFault):
    """The active bundle of a pipeline is not the one that the change expects.

    `active` is the hash of the active bundle, "" if the pipeline is not deployed.
    """

    def __init__(self, uid: str, active: str) -> None:
        super().__init__(
            f"pipeline {uid} is active with bundle {active}, not with the expected one; "
            "check the active bundle, then try again"
            if active
            else f"pipeline {uid} is not deployed"
        )
        self.uid, self.active = uid, active


class StoreDamaged(StoreBroken):
    """The store lost or corrupted data. It stays unchanged until it is restored or salvaged."""

    # Whether a damage note next to the file records this error.
    noted = False
