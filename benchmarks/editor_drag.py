"""usage: editor_drag.py URL [--agents N] [--runs N]. Measure the longest task of the browser while
the graph of the pipeline editor is dragged.

URL is that of a running server without keys. A pipeline of N agents (300) is deployed to it. In
each run Chromium, with software rendering, first moves the view and then draws a line from one
box over the others, 60 steps each. The printed figures are the processor times of the longest
tasks of the page's main thread in ms, which other programs on the machine do not change much.
Bound: a median of 50 ms.
"""

import argparse
import json
import shutil
import statistics
import urllib.request
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

STEPS = 60
UID = "editor-drag"
CATEGORIES = ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"]
TASKS = ("RunTask", "ThreadControllerImpl::RunTask")


def make_bundle(agents: int) -> dict[str, Any]:
    """Return a pipeline in which each agent hears one of the earlier agents."""
    person = {"agent_class": "chat_agent", "agent_alias": "User", "agent_name": "User"}
    swarms = {"agent_rec_swarm": "chat", "agent_send_swarm": "chat"}
    others = [
        {
            "agent_class": "wf_agent",
            "agent_alias": f"a{number}",
            "wf_agent_name": f"a{number}",
            "agent_from": f"a{number // 3}" if number > 2 else "User",
            "wf_diagram_webhook": "add_1",
            "wf_publish_results": True,
            **swarms,
        }
        for number in range(1, agents)
    ]
    return {"pipeline_name": UID, "agents": [person | swarms, *others]}


def deploy(url: str, agents: int) -> None:
    """Deploy the pipeline."""
    body, headers = json.dumps(make_bundle(agents)).encode(), {"Content-Type": "application/json"}
    path = f"{url}/v1/pipelines/{UID}"
    urllib.request.urlopen(urllib.request.Request(path, body, headers, method="PUT")).close()


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Move the pressed pointer in small steps."""
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=STEPS)
    page.mouse.move(*start, steps=STEPS)
    page.mouse.up()


def measure(browser: Browser, url: str) -> tuple[float, float]:
    """Return the longest tasks in ms while the view is moved, and while a line is drawn."""
    page = browser.new_page(viewport={"width": 1500, "height": 1000})
    page.goto(f"{url}/pipelines/{UID}/edit")
    page.locator(".box").last.wait_for()
    page.wait_for_timeout(1500)
    canvas, port = page.locator(".canvas").bounding_box(), page.locator(".port").first
    assert canvas is not None
    right, top = canvas["x"] + canvas["width"] - 30, canvas["y"] + 30
    found = [trace(browser, page, (right, top + 300), (canvas["x"] + 30, top))]
    page.locator(".canvas").evaluate("(node) => node.scrollTo(0, 0)")
    place = port.bounding_box()
    assert place is not None
    start = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
    found.append(trace(browser, page, start, (right - 100, top + 300)))
    page.close()
    return found[0], found[1]


def trace(
    browser: Browser, page: Page, start: tuple[float, float], end: tuple[float, float]
) -> float:
    """Drag, and return the longest task in ms of the threads that run the page."""
    browser.start_tracing(page=page, categories=CATEGORIES)
    drag(page, start, end)
    events = json.loads(browser.stop_tracing())["traceEvents"]
    named = [one for one in events if one["name"] == "thread_name"]
    mains = {(one["pid"], one["tid"]) for one in named if "RendererMain" in one["args"]["name"]}
    tasks = [
        one.get("tdur", one.get("dur", 0)) / 1000
        for one in events
        if one["name"] in TASKS and (one["pid"], one["tid"]) in mains
    ]
    return max(tasks, default=0.0)


def main() -> None:
    """Run the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--agents", type=int, default=300)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    deploy(given.url, given.agents)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        runs = [measure(browser, given.url) for _ in range(given.runs)]
        browser.close()
    for name, times in zip(("move the view", "draw a line"), zip(*runs, strict=True), strict=True):
        print(f"{name}: median {statistics.median(times):.1f} ms, all {sorted(times)}")


if __name__ == "__main__":
    main()
