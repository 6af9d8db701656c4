"""Endpoints: URLs of other services that get a signed webhook for each change, and the deliveries.

The source of the deliveries is the change feed of each store of the pipeline, whose rows are in the
transaction of their change. So there is no change without its delivery, and none without a change.
"""

from memrelay.memory.engine.models import Model, Rows

ENDPOINTS_STORE = "endpoints"
MODEL = Model(
    name="endpoints",
    store=ENDPOINTS_STORE,
    faces=("web.console.pages.endpoints", "worker.endpoints"),
    nouns={"endpoints": ("endpoints", "deliveries"), "deliveries": ("deliveries",)},
    # Not exported: they have secrets, and belong to this pipeline.
    rows=(
        Rows("endpoints"),
        Rows("delivery_cursors"),
        Rows("change_causes", row="first"),
        Rows("delivery_recoveries"),
        Rows("delivery_tries", texts=("answer",), row="n"),
        Rows("deliveries", texts=("subject", "type"), json=("data",), row="n"),
    ),
)
