"""Receipts of agents: what a block has read for its answer (docs/receipts.md).

Loaded with the first bundle that has an agent with `receipts`.
"""

from typing import Any

from memrelay.blocks.contract import Call, Handle
from memrelay.memory.models.receipts.making import Read, Reader, build_receipt
from memrelay.memory.models.receipts.table import ReceiptTable

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
    """Add the receipts."""
    agent = call.agent
    # UID/INPUT.STEP
    input_id = call.next_deferred_call_id.partition("/")[2].partition(".")[0]
    thread = str(call.part.get(SESSION_ID) or "") if SESSION_ID in call.message.vouched else ""
    reader = Reader(agent.pipeline, agent.name, agent.alias, input_id, thread)
    table = call.tx.table(ReceiptTable)
    for read in reads:
        receipt = build_receipt(call.tx, table.new_id(call.now_ms), read, reader)
        table.add(receipt.without_question() if only_digests else receipt)
