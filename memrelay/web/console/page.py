"""What a page of the console declares about itself, and the navigation made of these declarations.

Each file in `pages/` has a `PAGE` and its `routes`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from aiohttp import web

from memrelay.web.auth.access import CALLER
from memrelay.web.auth.authorizer import Caller

Menu = Literal["main", "pipeline"]


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the console.

    `menu` is the navigation that lists the page: the main menu, or the tabs of a pipeline. `parent`
    is the title of the page above it. `link` is the address of its menu entry if that is not
    `path`. Callers see the entry if they have one of `scopes`, or if there are none; `sees_all`
    asks for access to all pipelines too.
    """

    title: str
    path: str
    menu: Menu | None = None
    order: int = 0
    parent: str = ""
    link: str = ""
    scopes: tuple[str, ...] = ("read",)
    sees_all: bool = False

    def is_for(self, caller: Caller | None) -> bool:
        """Return whether a caller may open the page. None: a client without a valid key."""
        if not self.scopes:
            return True
        if caller is None or caller.scopes.isdisjoint(self.scopes):
            return False
        return caller.sees_all or not self.sees_all


class Link(NamedTuple):
    """An entry of a navigation. `current` is the value of aria-current, "" for none."""

    title: str
    url: str
    current: str


# The pages, by title.
PAGES = web.AppKey("pages", dict[str, Page])


def index_pages(pages: Sequence[Page]) -> dict[str, Page]:
    """Return the pages by title, in the order of their menu entries."""
    return {page.title: page for page in sorted(pages, key=lambda page: page.order)}


def make_menu(request: web.Request, page: Page | None, menu: Menu, uid: str = "") -> list[Link]:
    """Return the entries of a navigation that the caller of a request may open."""
    pages, caller = request.config_dict[PAGES], request.get(CALLER)
    above = _titles_above(pages, page)
    return [
        Link(one.title, (one.link or one.path).replace("{uid}", uid), _mark(one, page, above))
        for one in pages.values()
        if one.menu == menu and one.is_for(caller)
    ]


def _titles_above(pages: dict[str, Page], page: Page | None) -> list[str]:
    titles = []
    while page is not None and page.parent:
        titles.append(page.parent)
        page = pages.get(page.parent)
    return titles


def _mark(entry: Page, page: Page | None, above: list[str]) -> str:
    if page is not None and entry.path == page.path:
        return "page"
    return "true" if entry.title in above else ""
