"""The checks of `views` in a bundle, besides the shape of each."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from memrelay.pipelines.report import Report, quoted

if TYPE_CHECKING:
    from memrelay.pipelines.bundle import StoreSpec


def check_views(stores: Mapping[int, "StoreSpec"], report: Report) -> None:
    """Report names that a store has twice."""
    for at, store in stores.items():
        first: dict[str, int] = {}
        for number, view in enumerate(store.views):
            name = view["name"]
            if name in first:
                rule = f"views[{first[name]}] already has the name {quoted(name)}"
                report.error(("stores", at, "views", number, "name"), rule, "choose another")
            first.setdefault(name, number)
