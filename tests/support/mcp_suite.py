"""Runs the MCP conformance suite against a server and reads its results."""

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.support.npm import npm_command, npm_environment, npm_packages

REVISIONS = ("2025-11-25", "2026-07-28")
_FOLDER = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")
_SUITE_TIMEOUT_S = 200


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """The results of one run of the suite.

    `scenarios` are the names of the scenarios that ran. `failed` has the message of each failed
    check under `scenario:check`.
    """

    scenarios: frozenset[str]
    failed: dict[str, str]

    def failures_of(self, scenarios: frozenset[str]) -> dict[str, str]:
        """Return the failed checks of some scenarios."""
        return {
            name: message
            for name, message in self.failed.items()
            if name.partition(":")[0] in scenarios
        }


def scored_scenarios(revision: str) -> frozenset[str]:
    """Return the scenarios that the suite requires of a server of a revision."""
    package = npm_packages() / "@modelcontextprotocol/conformance"
    rules = yaml.safe_load((package / "requirements" / f"{revision}.yaml").read_text())
    return frozenset(rules["server"])


def run_suite(url: str, revision: str, folder: Path) -> SuiteResult:
    """Run the server scenarios of a revision against `url`. The suite writes into `folder`."""
    command = [
        *npm_command("conformance"),
        "server",
        *("--url", url),
        *("--requirements", revision),
        *("--output-dir", str(folder)),
    ]
    ended = subprocess.run(
        command,
        cwd=folder,
        env=npm_environment(),
        capture_output=True,
        text=True,
        timeout=_SUITE_TIMEOUT_S,
        check=False,
    )
    assert "=== SUMMARY ===" in ended.stdout, ended.stdout[-2000:] + ended.stderr[-2000:]
    return _read_results(folder)


def _read_results(folder: Path) -> SuiteResult:
    scenarios, failed = set(), {}
    for path in folder.glob("server-*/checks.json"):
        match = _FOLDER.fullmatch(path.parent.name)
        assert match is not None, path
        scenarios.add(match[1])
        for check in json.loads(path.read_text()):
            if check["status"] == "FAILURE":
                message = check.get("errorMessage", "")
                failed[f"{match[1]}:{check['id']}"] = message
    return SuiteResult(frozenset(scenarios), failed)
