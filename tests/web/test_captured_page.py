"""The page "Captured": the sessions of a day, and the undo of one."""

import html
import re

from tests.support.http import ask
from tests.support.web_system import WebSystem


def capture(web_system: WebSystem, uid: str, session: str, prompt: str) -> None:
    item = {"project": "git.example.com/<b>", "branch": "main", "tool": "codex"}
    message = {"role": "user", "content": prompt, "item": item}
    call = {"thread": f"capture/codex/{session}", "agent": "codex", "messages": [message]}
    assert web_system.post(f"/v1/pipelines/{uid}/turns/add", call).status == 200


def test_a_session_is_listed_and_undone(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    path = f"/pipelines/{uid}/captured"
    assert "Nothing was captured" in web_system.get(path).body.decode()
    capture(web_system, uid, "s1", "Fix the <i>port</i>")
    capture(web_system, uid, "s'2", "Write a test")

    page = web_system.get(path).body.decode()

    assert "Fix the &lt;i&gt;port" in page and "Write a test" in page and "<b>" not in page
    forms = re.findall(r'data-call="POST ([^"]+)" data-body=\'([^\']+)\'', page)
    assert len(forms) == 2
    call, body = map(html.unescape, forms[0])
    done = ask(web_system.url, "POST", call, body.encode(), {"Content-Type": "application/json"})
    assert done.json == {"deleted": 1}
    rows = web_system.get(f"{path}/rows").body.decode()
    assert "Write a test" not in rows and "Fix the" in rows


def test_a_day_that_does_not_exist_is_explained(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    page = web_system.get(f"/pipelines/{uid}/captured?day=2026-02-30").body.decode()

    assert "is no day" in page
    assert "Nothing was captured on 2026-11-01" in (
        web_system.get(f"/pipelines/{uid}/captured?day=2026-11-01").body.decode()
    )
