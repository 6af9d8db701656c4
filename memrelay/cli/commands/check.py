"""`memrelay check FILE`: the checks of a deploy, without the deploy."""

import time
from datetime import datetime

from memrelay.cli.composition import run_with_settings
from memrelay.cli.deployment import read_bundle
from memrelay.cli.options import BundleFile, JsonAnyway
from memrelay.cli.terminal.output import print_json
from memrelay.memory.engine.time_zones import find_zone
from memrelay.pipelines.cron import CronSchedule

NEXT_SLOTS = 3  # printed for each schedule


def check(file: BundleFile, *, as_json: JsonAnyway = False) -> None:
    """Check a bundle without deploying it. Print all faults and warnings, and next runs."""
    checked = run_with_settings(lambda settings: read_bundle(settings, file, None))
    bundle = checked.bundle
    assert bundle is not None
    result = {
        "ok": True,
        "name": bundle.name,
        "agents": len(bundle.agents),
        "warnings": len(checked.warnings),
    }
    runs = {
        agent.agent.alias: _find_next_runs(agent.schedule, time.time_ns() // 1_000_000)
        for agent in bundle.agents
        if agent.schedule
    }
    print_json(result | {"next_runs": runs} if runs else result)


def _find_next_runs(schedule: CronSchedule, now_ms: int) -> list[str]:
    """Return the next times of a schedule in its zone, like 2026-11-30T09:00:00+01:00."""
    runs: list[str] = []
    next_ms = schedule.find_next(now_ms)
    while next_ms is not None and len(runs) < NEXT_SLOTS:
        run = datetime.fromtimestamp(next_ms / 1000, find_zone(schedule.timezone))
        runs.append(run.isoformat())
        next_ms = schedule.find_next(next_ms)
    return runs
