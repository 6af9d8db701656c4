"""Hooks of mkdocs: `llms.txt` and `llms-full.txt` for assistants (https://llmstxt.org).

- `llms.txt` lists the pages by their place in the navigation, each with its first sentence.
- `llms-full.txt` has their texts in that order, without the changelog.
- Each page is also at its path in `docs/` as Markdown, to which `llms.txt` links.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

# Their Markdown has only directives; the text is made from docstrings.
WITHOUT_TEXT = ("api.md",)
NOT_IN_FULL = ("repository/CHANGELOG.md",)
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^# (.+)$", re.MULTILINE)
SENTENCE = re.compile(r"(.+?[.!?])(?=\s|$)")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|<https?://([^>]*)>")

_markdown: dict[str, str] = {}  # of each page, by its path in `docs/`
_sections: dict[str, list[Page]] = {}  # the pages of each section of the navigation


@event_priority(-100)  # after the links are changed for the site
def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> None:
    _markdown[page.file.src_uri] = markdown


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    _sections.clear()
    for page in nav.pages:
        top = page.ancestors[-1].title if page.ancestors else config.site_name
        _sections.setdefault(str(top), []).append(page)


def on_post_build(config: MkDocsConfig) -> None:
    site = Path(config.site_dir)
    heading = f"# {config.site_name}\n\n> {config.site_description}\n"
    lists, texts = [heading], [heading]
    for section, pages in _sections.items():
        lists.append(f"## {section}\n\n" + "".join(map(list_page, pages)))
        for page in pages:
            uri = page.file.src_uri
            if uri in WITHOUT_TEXT:
                continue
            target = site / uri
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_markdown[uri])
            if uri not in NOT_IN_FULL:
                texts.append(_markdown[uri].strip() + "\n")
    (site / "llms.txt").write_text("\n".join(lists))
    (site / "llms-full.txt").write_text("\n".join(texts))


def list_page(page: Page) -> str:
    """Return the line of a page in `llms.txt`."""
    uri = page.file.src_uri
    link = page.file.url if uri in WITHOUT_TEXT else uri
    heading = HEADING.search(_markdown[uri])
    title = heading[1] if heading else page.title
    return f"- [{title}]({link}): {describe(_markdown[uri])}\n"


def describe(markdown: str) -> str:
    """Return the first sentence of a page as plain text.

    Raises ValueError: the page has no sentence outside tables, lists and code.
    """
    for line in BLOCK.sub("", markdown).splitlines():
        text = LINK.sub(lambda link: link[1] or link[2] or "", line).strip()
        if text[:1].isalpha() or text.startswith(("`", "*")):
            match = SENTENCE.match(text)
            return f"{text.rstrip(':')}." if match is None else match[1]
    raise ValueError(f"a page has no sentence for llms.txt: {markdown[:60]!r}")
