"""Receipts of agents: what a block has read for its answer (docs/receipts.md).

Loaded with the first bundle that has an agent with `receipts`.
"""

from typing import Any

from memrelay.blocks.contract import Call, Handle
from memrelay.memory.models.receipts.making import FINDERS, as_given, describe_embedder
from memrelay.memory.models.receipts.packing import RANKING, digest_question
from memrelay.memory.models.receipts.table import ReceiptTable
from memrelay.memory.operations import Operation, Read, Reads
from memrelay.memory.search.text.languages import DEFAULT_LANGUAGE

SESSION_ID = "session_id"


class NotedReads(Reads):
    """Notes the reads that operations make for a block."""

    def note(self, operation: Operation, tx: Any, given: Any, output: Any) -> None:
        if operation.name in FINDERS:
            found = list(FINDERS[operation.name](tx, output))
            mode = getattr(output, "mode", "")
            language = getattr(given, "language", "") or DEFAULT_LANGUAGE
            self.append(Read(operation.name, as_given(given), found, mode, language))


def keep_receipts(handle: Handle, *, only_digests: bool = False) -> Handle:
    """Return the function of a block that leaves a receipt of each read, in the transaction of its
    message.
    """

    def call_with_receipts(call: Call, args: Any) -> Any:
        reads = call.reads = NotedReads()
        answer = handle(call, args)
        if reads:
            _add(call, reads, only_digests)
        return answer

    return call_with_receipts


def _add(call: Call, reads: list[Read], only_digests: bool) -> None:
    """Add the receipts."""
    agent, tx = call.agent, call.tx
    thread = str(call.part.get(SESSION_ID) or "") if SESSION_ID in call.message.vouched else ""
    about = agent.pipeline, agent.name, agent.alias, call.ids.input_id, thread
    for operation, given, found, mode, language in reads:
        embedder = "" if mode == "fts" else describe_embedder(tx, mode)
        question = digest_question(given) if only_digests else given
        read = operation, question, found, (RANKING, embedder, language, mode)
        tx.table(ReceiptTable).add(call.now_ms, about, read)
