"""Channels: what follows from a message that a stranger publishes on one, for the pipelines of this
worker."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bus.codec import decode, encode
from bus.entry import NewEntry
from bus.errors import MalformedMessage
from bus.listeners import Member, log_if_first
from bus.wire import PUBLIC, swarm_key
from pipelines.plan import Plan
from worker.limits import WorkerLimits
from worker.membership import members_of


class PrivateChannel(NamedTuple):
    """Of one pipeline's swarm."""

    uid: str
    swarm: str

    def commands(self, payload: bytes) -> list[bytes]:
        """It is appended to the input; the log gets it when it has run."""
        return [NewEntry(self.uid, payload, self.swarm, heard=True).pack()]


class PublicChannel(NamedTuple):
    """Every owner hears it, for its own pipelines alone."""

    swarm: str
    members: Sequence[Member]
    limits: WorkerLimits

    def commands(self, payload: bytes) -> list[bytes]:
        """It is appended to the inputs of those that listen; one of the owners writes it to the
        log, if it is an envelope."""
        appends = [
            NewEntry(member.uid, payload, self.swarm, heard=True).pack()
            for member in self.members
            if member.listens
        ]
        try:
            data = encode(decode(payload, self.limits.message_bytes))
        except MalformedMessage:
            return appends
        return [*appends, log_if_first(self.swarm, data, self.members, self.limits.log_length)]


Channel = PrivateChannel | PublicChannel


def channels_of(plans: Iterable[Plan], limits: WorkerLimits) -> dict[bytes, Channel]:
    """By name, those of all swarms of these pipelines."""
    found: dict[bytes, Channel] = {}
    public: dict[str, list[Member]] = {}
    for plan in plans:
        private = plan.private_names.values()
        found |= {
            swarm_key(plan.uid, swarm).encode(): PrivateChannel(plan.uid, swarm)
            for swarm in private
        }
        for member in members_of(plan):
            public.setdefault(member.swarm, []).append(member)
    return found | {
        swarm_key(PUBLIC, swarm).encode(): PublicChannel(swarm, members, limits)
        for swarm, members in public.items()
    }
