"""A report for people, and as JUnit."""

from collections.abc import Iterator, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

# The lists of a report with its differences, and what one of them is.
LISTS = {
    "records": "record",
    "decisions": "decision of a call",
    "messages": "published message",
    "dead_letters": "dead letter",
    "webhooks": "webhook",
    "requests": "request",
    "deliveries": "delivery",
}
# The lists of a report that come in pages.
PAGED = (*LISTS, "questions")
# Differences of a list that the text shows.
LINES = 200


def format_report(report: dict[str, Any]) -> str:
    """Return a report as text for people, with the first LINES differences of each list."""
    return "\n".join(_lines(report))


def _lines(report: dict[str, Any]) -> Iterator[str]:
    yield f"rehearsal {report['id']}: {report['status']}"
    if report["reason"]:
        yield f"  {report['reason']}"
    if report["status"] != "done":
        return
    inputs = report["inputs"]
    yield f"period     {report['since']} to {report['until']}"
    yield f"inputs     {inputs['rehearsed']} rehearsed, {inputs['not_rehearsed']} not"
    for one in inputs["reasons"]:
        yield f"           {one['count']} not rehearsed: {one['reason']}"
    yield from (f"note       {note}" for note in report["notes"])
    if report["equal"]:
        yield "no difference"
    for name, count in report["counts"].items():
        if count:
            yield f"{name.replace('_', ' ')}: {count}"
    for one in report.get("policies", ()):
        yield (
            f"policy {one['policy']}: {one['action']} {one['then']} times, and "
            f"{one['candidate']} under the candidate"
        )
    if "tests" in report:
        yield from _question_lines(report)
    for one in report["records"][:LINES]:
        yield from _record_lines(one)
    for name, noun in LISTS.items():
        for one in report.get(name, [])[:LINES] if name != "records" else ():
            yield f"{noun} of input {one['input']}"
            yield from _side_lines(one)
    for one in report["sources"]:
        yield f"source {one['then']} is {one['candidate']} in {one['records']} records"
    for name, count in report.get("order", {}).items():
        yield f"another order of {name.replace('_', ' ')}: {count} inputs"
    if report["truncated"]:
        yield "the report is at its limit: not all differences are listed"


def _record_lines(one: dict[str, Any]) -> Iterator[str]:
    origin = f"input {one['input']}" if one["input"] else "from before the period"
    yield f"{one['change']} {one['kind']} in {one['store']} ({origin})"
    if one["change"] != "changed":
        side = one["candidate"] or one["then"]
        yield f"  {'+' if one['candidate'] else '-'} {side['content']}"
        return
    if "words" in one:
        marks = {"=": "{}", "-": "[-{}-]", "+": "{{+{}+}}"}
        yield "    " + "".join(marks[sign].format(text) for sign, text in one["words"])
    for name, (before, after) in one["fields"].items():
        if name != "content":
            yield f"    {name}: {before} -> {after}"


def _question_lines(report: dict[str, Any]) -> Iterator[str]:
    tests = report["tests"]
    yield (
        f"golden questions: {tests['then']} of {tests['questions']} pass, and "
        f"{tests['candidate']} under the candidate"
    )
    for one in report["questions"][:LINES]:
        before, after = one["then"], one["candidate"]
        if before["passed"] and after["passed"]:
            continue
        now = "passes" if after["passed"] else "fails"
        yield f"question {now}, {'passed' if before['passed'] else 'failed'} before: {one['name']}"
        for failure in after["failures"]:
            yield f"    expected {failure}"
        for found in after["found"] if not after["passed"] else ():
            yield f"    {found['rank']:>3}  {found['text']}"


def _side_lines(one: dict[str, Any]) -> Iterator[str]:
    for sign, side in (("-", one["then"]), ("+", one["candidate"])):
        if side is not None:
            values = [f"{value}" for value in side.values() if isinstance(value, str) and value]
            yield f"  {sign} {' | '.join(values)}"


def format_junit(report: dict[str, Any]) -> str:
    """Return a report as JUnit: one test for each sort of difference, which fails if there is one.

    A rehearsal that did not end is an error.
    """
    if report["status"] != "done":
        case = f"<error message={quoteattr(report['reason'] or report['status'])}/>"
        return _suite([_case("rehearsal", case)], failures=0, errors=1)
    cases = []
    for name, count in report["counts"].items():
        text = f"{count} {name.replace('_', ' ')}"
        failure = f"<failure message={quoteattr(text)}>{escape(text)}</failure>" if count else ""
        cases.append(_case(name, failure))
    failures = sum(1 for count in report["counts"].values() if count)
    for one in report.get("questions", ()):
        text = "; ".join(one["candidate"]["failures"])
        failure = f"<failure message={quoteattr(text)}/>" if text else ""
        cases.append(_case(f"question: {one['name']}", failure))
        failures += bool(text)
    return _suite(cases, failures=failures, errors=0)


def _case(name: str, inner: str) -> str:
    return f"<testcase classname='rehearsal' name={quoteattr(name)}>{inner}</testcase>"


def _suite(cases: Sequence[str], *, failures: int, errors: int) -> str:
    return (
        "<?xml version='1.0' encoding='utf-8'?>\n"
        f"<testsuite name='rehearsal' tests='{len(cases)}' failures='{failures}' "
        f"errors='{errors}'>\n" + "\n".join(cases) + "\n</testsuite>\n"
    )
