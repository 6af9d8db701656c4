"""Reviews: writes that a policy holds back until a reviewer approves or rejects them.

A waiting write is a proposal, a call with its input, in a separate table. It is no record, so no
read, search, list, feed or export can find it.
"""

from memrelay.memory.engine.models import Model, Rows

MODEL = Model(
    name="reviews",
    faces=("web.console.pages.reviews",),
    nouns={"reviews": ("reading", "deciding")},
    # Not exported: they are no records yet.
    rows=(Rows("proposals", row="n", ends="until_ms"),),
    erase="table:ProposalErasure",
    propose="proposing:propose",
)
