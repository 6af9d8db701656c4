"""Public swarms with `say`, `tail`, `acl`, `doctor` and `rm`."""

import json
from pathlib import Path

from memrelay.bus.keys import listeners_key
from memrelay.bus.permissions import client_rules
from tests.support.bundles import Json, make_bundle, make_memory
from tests.support.program import Program
from tests.support.waiting import wait_for

NEWS = "big news"
RULES = ["%R~swarm:{public}:big?news", "&swarm:{public}:big?news"]


def make_keeper(uid: str) -> Json:
    keeper = make_memory("write", senders="*") | {"agent_rec_swarm": NEWS}
    return make_bundle(uid, keeper, name=uid) | {"swarms": [{"name": NEWS, "visibility": "public"}]}


def deploy(program: Program, folder: Path, uid: str) -> None:
    file = folder / f"{uid}.json"
    file.write_text(json.dumps(make_keeper(uid)))
    assert program.run("deploy", file).code == 0


def test_a_public_message_is_in_the_tail_of_every_listening_pipeline(
    program: Program, tmp_path: Path
) -> None:
    for uid in ("here", "there"):
        deploy(program, tmp_path, uid)

    sent = program.run("say", "here", "hello", "--swarm", NEWS)
    tails = [
        program.run("tail", uid, "--swarm", NEWS, "--no-follow", "--json").lines
        for uid in ("here", "there")
    ]

    assert (sent.code, sent.out) == (0, "") and f"sent to the public swarm {NEWS}" in sent.err
    assert tails[0] == tails[1] and [line["message"]["args"][0]["text"] for line in tails[0]] == [
        "hello"
    ]
    assert [
        found["level"]
        for found in program.run("doctor", "--json").lines
        if found["check"] == "public swarms"
    ] == ["ok"]


def test_the_acl_allows_reading_and_publishing_on_the_public_swarms_of_the_pipeline(
    program: Program, tmp_path: Path
) -> None:
    deploy(program, tmp_path, "here")

    rules = program.run("acl", "here", "--json").lines[0]["rules"]

    assert (
        rules[:-1] == client_rules("here", [NEWS])
        and [rule for rule in rules if "public" in rule] == RULES
    )
    redis = program.client().redis
    redis.execute_command("ACL", "SETUSER", "confined", *rules[:-1], ">tea")
    for allowed, words in (
        (True, ("PUBLISH", f"swarm:{{public}}:{NEWS}", "{}")),
        (True, ("XLEN", f"swarm:{{public}}:{NEWS}")),
        (False, ("XADD", f"swarm:{{public}}:{NEWS}", "*", "a", "b")),
        (False, ("XLEN", "swarm:{public}:x")),
        (False, ("PUBLISH", "swarm:{public}:x", "{}")),
        (False, ("ZREM", listeners_key(), "x")),
    ):
        assert (redis.execute_command("ACL", "DRYRUN", "confined", *words) == b"OK") == allowed, (
            words
        )


def test_doctor_reports_a_listening_pipeline_without_a_worker(program: Program) -> None:
    program.client().redis.zadd(listeners_key(), {"news\n0\nlost": 0})

    found = [
        one for one in program.run("doctor", "--json").lines if one["check"] == "public swarms"
    ]
    program.client().redis.zrem(listeners_key(), "news\n0\nlost")

    assert [(one["level"], "no worker serves lost" in one["text"]) for one in found] == [
        ("warning", True)
    ]


def test_a_removed_pipeline_no_longer_listens(program: Program, tmp_path: Path) -> None:
    deploy(program, tmp_path, "gone")
    listeners = program.client().redis
    wait_for(lambda: b"gone" in b"".join(listeners.zrange(listeners_key(), 0, -1)), "it listens")

    assert program.run("rm", "gone").code == 0

    wait_for(
        lambda: b"gone" not in b"".join(listeners.zrange(listeners_key(), 0, -1)),
        "it listens no more",
    )
