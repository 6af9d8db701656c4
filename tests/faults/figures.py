"""usage: python -m tests.faults.figures JUNIT_FILE. Prints the figures of a run as a Markdown
table.
"""

import sys
from xml.etree import ElementTree


def table(junit: str) -> str:
    """Return one line per recorded figure, in the order of docs/faults.md."""
    lines = []
    for case in ElementTree.parse(junit).iter("testcase"):
        held = (
            "fails"
            if case.find("failure") is not None or case.find("error") is not None
            else "holds"
        )
        for told in case.iter("property"):
            if told.get("name") == "fault":
                lines.append(f"| {told.get('value')} | {held} |")
    head = ["| # | fault | figures | |", "|---|---|---|---|"]
    return "\n".join(head + sorted(lines, key=lambda line: int(line.split("|")[1])))


if __name__ == "__main__":
    print(table(sys.argv[1]))
