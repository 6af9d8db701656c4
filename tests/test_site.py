"""The documents build as a site, without warnings and without parts from other servers."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

import memrelay
from tests.support.child import CHECKOUT

DOCS = CHECKOUT / "docs"
ROWS = re.compile(r"^\| ([^|`]+?) \| (.+?) \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "--strict", "--site-dir", folder],
        cwd=CHECKOUT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Loaded(HTMLParser):
    """Collects what a browser loads with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.addresses.append(values.get("src") or "")
        if tag == "link" and values.get("rel") in ("stylesheet", "preconnect", "icon", "preload"):
            self.addresses.append(values.get("href") or "")


@pytest.mark.timeout(240)
def test_no_page_loads_anything_from_another_server(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    loaded = Loaded()
    for page in pages:
        loaded.feed(page.read_text())

    assert len(pages) > 50
    assert len(loaded.addresses) > len(pages)
    assert [name for name in loaded.addresses if re.match(r"(\w+:)?//", name)] == []


@pytest.mark.timeout(240)
def test_a_page_links_the_first_use_of_a_term_to_the_glossary(site: Path) -> None:
    page = (site / "scaling" / "index.html").read_text()
    glossary = (site / "glossary" / "index.html").read_text()

    links = re.findall(r'<a class="term" href="([^"#]+)#([\w-]+)" title="[^"]+">', page)
    assert len(links) > 5
    assert {address for address, _ in links} == {"../glossary/"}
    assert len({anchor for _, anchor in links}) == len(links)
    assert all(f'id="{anchor}"' in glossary for _, anchor in links)


@pytest.mark.timeout(240)
def test_the_site_has_the_examples_and_the_python_api(site: Path) -> None:
    api = (site / "api" / "index.html").read_text()

    assert (site / "repository" / "examples" / "recipes" / "index.html").exists()
    assert (site / "repository" / "config.yaml").exists()
    assert [name for name in memrelay.__all__ if f'id="memrelay.{name}"' not in api] == []
    assert 'id="memrelay.Client.say"' in api


@pytest.mark.timeout(240)
def test_llms_txt_lists_each_page_with_a_sentence(site: Path) -> None:
    text = (site / "llms.txt").read_text()
    navigation = re.findall(
        r": ([\w/-]+\.md)$", (CHECKOUT / "mkdocs.yml").read_text(), re.MULTILINE
    )

    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): [^\n]{12,}[.!?]$", text, re.MULTILINE)

    assert text.startswith("# Memrelay\n\n> ")
    assert len(listed) == text.count("\n- ") == len(navigation) > 50
    assert set(navigation) - set(listed) == {"api.md"}
    assert [link for link in listed if not (site / link).exists()] == []


@pytest.mark.timeout(240)
def test_llms_full_txt_has_the_text_of_each_page(site: Path) -> None:
    text = (site / "llms-full.txt").read_text()
    pages = re.findall(r"\(([\w/.-]+\.md)\)", (site / "llms.txt").read_text())

    assert [
        page
        for page in pages
        if "CHANGELOG" not in page and (site / page).read_text().strip() not in text
    ] == []
    assert "with open_store(" in text


def test_each_term_is_defined_once_in_one_line_and_in_order() -> None:
    text = (DOCS / "glossary.md").read_text()
    groups = [ROWS.findall(part) for part in text.split("\n## ")[1:]]
    terms = [[term for term, _ in group if term != "term"] for group in groups]

    assert [sorted(group, key=str.lower) for group in terms] == terms
    assert len({term.lower() for group in terms for term in group}) == sum(map(len, terms)) > 60
    assert [meaning for group in groups for _, meaning in group if len(meaning.split()) > 25] == []


def test_the_picture_has_a_description_and_colors_for_light_and_dark() -> None:
    text = (DOCS / "architecture.svg").read_text()
    root = ElementTree.fromstring(text)

    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert {"title", "desc", "text"} <= names
    assert "prefers-color-scheme: dark" in text
    assert "href" not in text and "url(http" not in text
