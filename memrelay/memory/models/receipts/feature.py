"""The feature that writes the receipts of blocks, in the transaction of their messages."""

from memrelay.memory.engine.features import Feature
from memrelay.memory.engine.store import Store
from memrelay.memory.models.receipts.table import ReceiptTable


class WrittenReceipts(Feature):
    """Writes one row for each batch."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._table = store.table(ReceiptTable)

    def complete(self) -> None:
        """Add the row."""
        self._table.flush()
