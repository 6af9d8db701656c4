"""Announce changes of stores on the channel of each pipeline, as a signal to read its change feed.

A signal may be lost with the connection, so consumers continue from their own cursor.
"""

from collections.abc import Iterable, Iterator, Mapping

import orjson

from memrelay.bus.client.resp import pack
from memrelay.bus.keys import changed_channel
from memrelay.pipelines.plan import Plan
from memrelay.worker.deliver.outbox import Outbox


def pack_signals(plans: Iterable[Plan], changes: Mapping[str, int]) -> list[bytes]:
    """Return one PUBLISH for each pipeline with a changed store.

    `changes` has the number of the last change by store.
    """
    return [pack("PUBLISH", channel, payload) for channel, payload in _signals(plans, changes)]


def publish_signals(plans: Iterable[Plan], outbox: Outbox, changes: Mapping[str, int]) -> None:
    """Publish the signals outside of a batch."""
    for channel, payload in _signals(plans, changes):
        outbox.publish(channel, payload)


def _signals(plans: Iterable[Plan], changes: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
    for plan in plans if changes else ():
        stores = {name: changes[name] for name in plan.all_stores if name in changes}
        if stores:
            yield changed_channel(plan.uid), orjson.dumps({"stores": stores})
