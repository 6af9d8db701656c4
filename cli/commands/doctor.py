"""`memrelay doctor`: what is wrong with an installation, and what to do about it."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import typer

from memrelay.cli.doctor.examination import examine, read_settings
from memrelay.cli.doctor.finding import Finding
from memrelay.cli.options import Json
from memrelay.cli.settings import may_color
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import counted

COLOURS = {"ok": typer.colors.GREEN, "warning": typer.colors.YELLOW, "fault": typer.colors.RED}


def doctor(*, as_json: Json = False) -> None:
    """Look for what is wrong, and say what to do about it; exit code 1 where there is a fault."""
    settings, findings = read_settings()
    if settings is not None:
        findings += asyncio.run(examine(settings))
    if as_json:
        for finding in findings:
            print_json(finding._asdict())
    else:
        _print(findings)
    if any(finding.level == "fault" for finding in findings):
        raise typer.Exit(1)


def _print(findings: Sequence[Finding]) -> None:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        level = f"{finding.level:7}  "
        level = typer.style(level, COLOURS[finding.level]) if may_color() else level
        print_line(f"{finding.check:{width}}  {finding.text}", before=level)
        if finding.remedy:
            print_line(f"{'':7}  {'':{width}}  -> {finding.remedy}")
    levels = Counter(finding.level for finding in findings)
    print_line(f"{counted(levels['fault'], 'fault')}, {counted(levels['warning'], 'warning')}")
