"""axe-core, which checks the accessibility of a page in Chromium."""

from functools import cache

from playwright.sync_api import Page

from tests.support.npm import npm_packages

SEVERE = ("serious", "critical")
RUN = """async () => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  const show = (nodes) => nodes.slice(0, 3).map((node) => node.html);
  return violations.map((one) => [one.id, one.impact, show(one.nodes)]);
}"""


@cache
def _read_axe() -> str:
    return (npm_packages() / "axe-core" / "axe.min.js").read_text()


def find_violations(page: Page) -> list[str]:
    """Return the serious and critical violations of a page, each with up to three elements."""
    page.evaluate(_read_axe())
    found = page.evaluate(RUN)
    return [f"{rule}: {' | '.join(nodes)}" for rule, impact, nodes in found if impact in SEVERE]
