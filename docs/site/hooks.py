"""Hooks of mkdocs: features of the site that Markdown does not have.

- Linked files of the repository outside `docs/` become files of the site, below `repository/`.
- Each page links the first use of a term to the glossary.
- Lists that are nested by two or three spaces get the four that mkdocs needs.
"""

import posixpath
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
COPIES = "repository"
LINK = re.compile(r"(?<=\]\()([\w./-]+)(#[\w-]+)?(?=\))")
CODE_BLOCK = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)
TERM_ROW = re.compile(r"^\| ([^|`]+?) \| (.+?) \|$", re.MULTILINE)
# In docstrings a word such as `thread` has its meaning in Python.
UNLINKED = ("glossary.md", "api.md")
# In their text no term is linked.
CLOSED_TAGS = ("a", "code", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "script", "style", "th")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside `docs/` that a page, or such a file, links to."""
    waiting = [file.src_uri for file in files.documentation_pages()]
    while waiting:
        page = waiting.pop()
        text = find_source(page).read_text()
        for match in LINK.finditer(CODE_BLOCK.sub("", text)):
            uri = to_site(page, match[1])
            if uri.startswith(COPIES) and files.get_file_from_path(uri) is None:
                source = find_source(uri)
                if source.is_file():
                    files.append(File.generated(config, uri, abs_src_path=str(source)))
                    waiting += [uri] if uri.endswith(".md") else []
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    uri = page.file.src_uri
    parts = CODE_BLOCK.split(markdown)
    for index in range(0, len(parts), 2):  # the odd ones are code
        text = re.sub(r"^ {2,3}(?=- )", "    ", parts[index], flags=re.MULTILINE)
        parts[index] = LINK.sub(partial(write_link, uri, files), text)
    if uri == "glossary.md":
        return TERM_ROW.sub(
            lambda row: f'| <span id="{make_anchor(row[1])}">{row[1]}</span> | {row[2]} |',
            "".join(parts),
        )
    return "".join(parts)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link the first use of each term of the glossary."""
    if page.file.src_uri in UNLINKED:
        return html
    glossary = posixpath.relpath("glossary/", page.url or ".")
    terms = {term.lower(): meaning for term, meaning in read_glossary()}
    words = "|".join(re.escape(term) for term in sorted(terms, key=len, reverse=True))
    pattern = re.compile(rf"\b({words})s?\b", re.IGNORECASE)

    def link(match: re.Match[str]) -> str:
        meaning = terms.pop(match[1].lower(), None)
        if meaning is None:
            return match[0]
        anchor = make_anchor(match[1])
        title = re.sub(r"[`*]|\]\([^)]*\)|\[", "", meaning).replace('"', "&quot;")
        return f'<a class="term" href="{glossary}/#{anchor}" title="{title}">{match[0]}</a>'

    return "".join(
        pattern.sub(link, text) if may_link else text for text, may_link in split_html(html)
    )


def split_html(html: str) -> Iterator[tuple[str, bool]]:
    """Yield tags and texts, with whether a text may be linked."""
    closed = 0
    for part in re.split(r"(<[^>]*>)", html):
        if match := re.match(r"<(/?)(\w+)", part):
            if match[2] in CLOSED_TAGS:
                closed += -1 if match[1] else 1
            yield part, False
        else:
            yield part, closed == 0


def read_glossary() -> list[tuple[str, str]]:
    """Return each term with its meaning."""
    rows = TERM_ROW.findall((ROOT / "docs" / "glossary.md").read_text())
    return [(term, meaning) for term, meaning in rows if term not in ("term", "---")]


def make_anchor(term: str) -> str:
    return term.lower().replace(" ", "-")


def write_link(page: str, files: Files, link: re.Match[str]) -> str:
    """Return a link of the Markdown as it leads to the copy of a file outside `docs/`."""
    uri = to_site(page, link[1])
    if files.get_file_from_path(uri) is None:
        return link[0]
    return posixpath.relpath(uri, posixpath.dirname(page) or ".") + (link[2] or "")


def to_site(page: str, link: str) -> str:
    """Return the place in the site of what a page links to."""
    path = find_source(page).parent.joinpath(link).resolve()
    if path.is_relative_to(ROOT / "docs"):
        return path.relative_to(ROOT / "docs").as_posix()
    if path.is_relative_to(ROOT):
        return posixpath.join(COPIES, path.relative_to(ROOT).as_posix())
    return link


def find_source(uri: str) -> Path:
    """Return the file that a place of the site shows."""
    if uri.startswith(f"{COPIES}/"):
        return ROOT / uri.removeprefix(f"{COPIES}/")
    return ROOT / "docs" / uri
