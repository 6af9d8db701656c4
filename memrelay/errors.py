"""The exceptions of the public API.

Exception
├── RelayError          the server refused a call of the client, or did not answer
├── OperationFailed     an operation that an async block called was refused, or not answered
├── Transient           a block raises it to be called again later
├── NotTheOwner         a running worker serves the store that should be opened
└── MemoryFault         the base class of all errors of a store
    ├── Refused             the input is invalid; nothing was changed (also a ValueError)
    │   ├── InvalidInput        several fields are invalid; `faults` lists all of them
    │   ├── NameTaken           another object has the id or the name
    │   ├── RecordNotFound            no such record, memory or entry
    │   ├── ResultTooLarge      the result is larger than allowed
    │   └── VersionConflict      the record has changed since the caller read it
    ├── StoreBusy           another program has the store open, or the disk is full; try again later
    ├── StoreBroken         the file cannot be used; the text contains the remedy
    ├── RecordDamaged       one record cannot be read; the text contains the remedy
    └── EmbeddingFault      no vectors can be made
"""

from typing import Any

from memrelay.blocks.async_call import OperationFailed
from memrelay.blocks.contract import Transient
from memrelay.memory.errors import (
    EmbeddingFault,
    InvalidInput,
    MemoryFault,
    NameTaken,
    RecordDamaged,
    RecordNotFound,
    Refused,
    ResultTooLarge,
    StoreBroken,
    StoreBusy,
    VersionConflict,
)
from memrelay.worker.ownership.host_locks import NotTheOwner

__all__ = [
    "EmbeddingFault",
    "InvalidInput",
    "MemoryFault",
    "NameTaken",
    "NotTheOwner",
    "OperationFailed",
    "RecordDamaged",
    "RecordNotFound",
    "Refused",
    "RelayError",
    "ResultTooLarge",
    "StoreBroken",
    "StoreBusy",
    "Transient",
    "VersionConflict",
]


class RelayError(Exception):
    """The server refused a call, or did not answer.

    `status` is the HTTP status, or 0 without an answer. `faults` lists every invalid field of the
    input, or every fault of a bundle: {"pointer", "rule", ...}. A traceback shows them.
    """

    def __init__(self, status: int, detail: str, faults: tuple[dict[str, Any], ...] = ()) -> None:
        super().__init__(detail)
        self.status, self.detail, self.faults = status, detail, faults
        for fault in faults:
            self.add_note(f"{fault.get('pointer', '')}: {fault.get('rule', '')}")
