"""Receipts of agents: what a block has read for its answer (docs/receipts.md).

Loaded with the first bundle that has an agent with `receipts`.
"""

from itertools import count
from typing import Any

from memrelay.blocks.contract import Call, Handle
from memrelay.memory.models.receipts.making import Read, Reader, build_receipt
from memrelay.memory.models.receipts.table import ReceiptTable
from memrelay.memory.records.ids import derive_guid

SESSION_ID = "session_id"


def keep_receipts(handle: Handle, *, only_digests: bool = False) -> Handle:
    """Return the function of a block that leaves a receipt of each read, in the transaction of its
    message.
    """

    def call_with_receipts(call: Call, args: Any) -> Any:
        reads: list[Read] = []
        call.receipt = lambda *read: reads.append(Read(*read))
        answer = handle(call, args)
        if reads:
            _add(call, reads, only_digests)
        return answer

    return call_with_receipts


def _add(call: Call, reads: list[Read], only_digests: bool) -> None:
    """Add the receipts. A replay gives them the same ids."""
    agent, vouched = call.agent, call.message.vouched
    # UID/INPUT.STEP
    step = call.next_deferred_call_id.partition("/")[2]
    thread = str(call.part.get(SESSION_ID) or "") if SESSION_ID in vouched else ""
    reader = Reader(agent.pipeline, agent.name, agent.alias, step.partition(".")[0], thread)
    table, numbers = call.tx.table(ReceiptTable), count(1)
    for read in reads:
        receipt = build_receipt(call.tx, "", read, reader)
        if only_digests:
            receipt = receipt.without_question()
        for number in numbers:
            ident = derive_guid(agent.pipeline, step, f"receipt {agent.alias}", number)
            if table.add(receipt._replace(id=ident)):
                break
