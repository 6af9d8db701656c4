"""The lines of policies in an export."""

from typing import Annotated, Self

import orjson
from msgspec import Meta
from msgspec.structs import replace

from memrelay.memory.engine.records import RecordTable
from memrelay.memory.policy_rules import check_policy
from memrelay.memory.records.export_fields import ExportedRow, Time


class ExportedPolicy(ExportedRow, frozen=True):
    """A policy that no bundle declares. `policy` is JSON."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    policy: str
    changed_at: Time

    def normalize(self) -> Self:
        """Check the policy, and write it as a store does."""
        policy = check_policy(orjson.loads(self.policy))
        if policy["name"] != self.name:
            raise ValueError(f"the policy has another name than {self.name!r}")
        return replace(self, policy=orjson.dumps(policy).decode())

    def admit(self, records: RecordTable) -> Self:
        """Return the row itself: a policy may quote what it finds."""
        return self
