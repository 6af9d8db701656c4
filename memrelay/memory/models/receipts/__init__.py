"""Receipts: which records a search or an agent has read, in which version, for which answer."""

from memrelay.memory.engine.models import Model, Rows

MODEL = Model(
    name="receipts",
    faces=("blocks.receipts", "cli.commands.receipt"),
    nouns={"receipts": ("listing",), "records": ("listing",)},
    rows=(Rows("receipts"),),
    erase="table:ReceiptErasure",
    receipt="making:make_receipt",
    receipt_table="table:ReceiptTable",
)
