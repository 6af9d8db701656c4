"""Tiny data sets in the layouts of the real ones."""

import json
from pathlib import Path
from typing import Any

SESSIONS = [
    ["Hi Ben!", "Hi Ann. I adopted a puppy called Biscuit."],
    ["We planted tomatoes today.", "Mine were eaten by snails.", "Poor you."],
]


def ask(question: str, *evidence: str, category: int = 4) -> dict[str, Any]:
    return {"question": question, "answer": "", "evidence": list(evidence), "category": category}


def conversation(*questions: dict[str, Any]) -> dict[str, Any]:
    """Return a conversation of Ann and Ben in two sessions."""
    found: dict[str, Any] = {"speaker_a": "Ann", "speaker_b": "Ben"}
    for number, turns in enumerate(SESSIONS, start=1):
        found[f"session_{number}_date_time"] = f"1:56 pm on {number} May, 2023"
        found[f"session_{number}"] = [
            {
                "speaker": "Ben" if place % 2 else "Ann",
                "dia_id": f"D{number}:{place + 1}",
                "text": text,
            }
            for place, text in enumerate(turns)
        ]
    return {"conversation": found, "qa": list(questions)}


def write_locomo(
    folder: Path,
    *conversations: dict[str, Any],
    audit: dict[str, list[str]] | None = None,
    audited_question: str | None = None,
) -> Path:
    folder.mkdir()
    (folder / "some_conversations.json").write_text(json.dumps(conversations))
    entries = [
        {"question_id": id_, "correct_evidence": evidence}
        | ({"question": audited_question} if audited_question else {})
        for id_, evidence in (audit or {}).items()
    ]
    (folder / "some_audit.json").write_text(json.dumps(entries))
    return folder


def write_cranfield(folder: Path) -> Path:
    folder.mkdir()
    (folder / "cran.all.1400").write_text(
        ".I 1\n.T\nwings\n.A\nsomebody\n.B\nj. 1\n.W\nwings\nin a slipstream .\n"
        ".I 2\n.T\nheat\n.A\n.B\n.W\nheat in slabs .\n"
    )
    (folder / "cran.qry").write_text(
        ".I 001\n.W\nwhat of wings\nin streams .\n.I 004\n.W\nwhat of heat .\n"
    )
    (folder / "cranqrel").write_text("1 1 2 \n1 2 -1\n2 2 4\n")
    return folder


def write_beir(folder: Path) -> Path:
    (folder / "qrels").mkdir(parents=True)
    lines = {
        "corpus.jsonl": [
            {"_id": "a", "title": "Tea", "text": "is made of leaves"},
            {"_id": "b", "text": "coffee"},
        ],
        "queries.jsonl": [
            {"_id": "q1", "text": "tea leaves"},
            {"_id": "q2", "text": "nothing is judged"},
        ],
    }
    for name, entries in lines.items():
        (folder / name).write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t0\n")
    return folder
