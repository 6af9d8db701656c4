"""`memrelay policy test` and `scan`, and `memrelay policies` on a running pipeline."""

import json
from pathlib import Path

from tests.support.program import Program

AWS = "AKIAIOSFODNN7EXAMPLE"
SECRETS = {"name": "no secrets", "match": {"find": "secrets"}, "action": "redact"}


def test_a_file_of_policies_is_tested_without_a_worker(program: Program, tmp_path: Path) -> None:
    file = tmp_path / "policies.json"
    kinds = {"name": "kinds", "match": {"filter": {"kind": {"eq": "x"}}}, "action": "drop"}
    file.write_text(json.dumps({"agents": [], "stores": [{"policies": [SECRETS, kinds]}]}))
    stored = program.run("policy", "test", str(file), f"use {AWS}")
    dropped = program.run("policy", "test", str(file), "tea", "--kind", "x")
    assert stored.lines[0]["outcome"] == "stored" and AWS not in stored.out
    assert (dropped.lines[0]["outcome"], dropped.lines[0]["policy"]) == ("drop", "kinds")

    file.write_text(json.dumps([SECRETS | {"action": "redcat"}, SECRETS | {"name": ""}]))
    refused = program.run("policy", "test", str(file), "tea")
    assert refused.code == 1
    assert "policies[0]/action" in refused.err and "policies[1]/name" in refused.err


def test_a_scan_shows_and_changes_the_records_of_the_past(program: Program, tmp_path: Path) -> None:
    made = program.run("records", "create", "memory_test", f"use {AWS}", "--source", "scanned")
    guid = made.lines[0]["guid"]
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(SECRETS))
    tried = program.run("policy", "scan", "memory_test", "--with", str(file))
    assert [line["guid"] for line in tried.lines[:-1]] == [guid]
    assert tried.lines[-1]["found"] == 1
    assert program.run("policies", "set", "memory_test", json.dumps(SECRETS)).code == 0
    try:
        applied = program.run("policy", "scan", "memory_test", "--apply")
        assert applied.lines[-1]["changed"] == 1, applied.err
        assert AWS not in program.run("records", "get", "memory_test", guid).out
        verdicts = program.run("policies", "verdicts", "memory_test").lines[0]
        assert [one["guid"] for one in verdicts["items"]] == [guid]
    finally:
        assert program.run("policies", "delete", "memory_test", "no secrets").code == 0
