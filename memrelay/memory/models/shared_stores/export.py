"""Lines of an export about the access to shared stores."""

from typing import Literal

from memrelay.memory.records.export_fields import ExportedRow, Flag, Id, Time


class ExportedGrant(ExportedRow, frozen=True):
    """A level of access to a store that an agent has."""

    store: Id
    grantee: Id
    level: Literal["search", "read", "readwrite"]
    granted_by: Id
    expires_at: Time | None
    created_at: Time


class ExportedContext(ExportedRow, frozen=True):
    """An agent that takes part in a chat, or works for a user."""

    id: Id
    sort: Literal["chat", "user"]
    agent: Id
    expires_at: Time | None


class ExportedSettings(ExportedRow, frozen=True, rename={"own": "self"}):
    """What an agent may use."""

    agent: Id
    enabled: Flag
    own: Flag
    chat: Flag
    user: Flag
