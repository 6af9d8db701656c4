"""Reports on golden questions: lines for people, and JUnit XML for CI systems."""

import re
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from memrelay.questions.run import Failure, Outcome, summarize

MAX_TEXT = 70  # characters of a result in a line
# Characters that XML 1.0 cannot hold.
NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def report_lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the questions that did not pass, with what was expected and found, and a summary."""
    for outcome in outcomes:
        if outcome.passed:
            continue
        word = "ERROR" if outcome.error else "FAILED"
        yield f"{word}  {outcome.question.title}"
        yield from (f"  {line}" for line in detail_lines(outcome))
        yield ""
    count = summarize(outcomes)
    failed = count["failed"] + count["errors"]
    total = count["questions"]
    noun = "question" if total == 1 else "questions"
    yield f"{total} {noun}: {count['passed']} passed, {failed} failed"


def detail_lines(outcome: Outcome) -> Iterator[str]:
    """Yield the error, or the failures and the results with their ranks."""
    if outcome.error:
        yield outcome.error
        return
    yield from (f"expected {failure}" for failure in outcome.failures)
    if outcome.degraded:
        yield f"meaning was not compared with every result ({outcome.degraded})"
    if not outcome.found:
        yield "found nothing"
    for one in outcome.found:
        text = " ".join(one.text.split())
        cut = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
        score = "" if one.score is None else f"{one.score:.3f}  "
        name = f"{one.key}: " if one.key else ""
        yield f"{one.rank:>3}  {score}{one.guid}  {name}{cut}"


def make_junit(suite: str, outcomes: Sequence[Outcome]) -> bytes:
    """Return the outcomes as JUnit XML: one test suite with a case for each question."""
    count = summarize(outcomes)
    root = ElementTree.Element(
        "testsuite",
        name=_clean(suite),
        tests=str(count["questions"]),
        failures=str(count["failed"]),
        errors=str(count["errors"]),
        skipped="0",
        time=f"{sum(one.seconds for one in outcomes):.3f}",
    )
    for outcome in outcomes:
        case = ElementTree.SubElement(
            root,
            "testcase",
            name=_clean(outcome.question.title),
            classname=_clean(f"{suite}.{outcome.question.search}"),
            time=f"{outcome.seconds:.3f}",
        )
        if outcome.passed:
            continue
        first = outcome.error or _join(outcome.failures)
        kind = "error" if outcome.error else "failure"
        ElementTree.SubElement(case, kind, message=_clean(first)).text = _clean(
            "\n".join(detail_lines(outcome))
        )
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _join(failures: Sequence[Failure]) -> str:
    return "; ".join(map(str, failures))


def _clean(text: str) -> str:
    return NOT_XML.sub("\ufffd", text)
