"""Commands that read a record from elsewhere."""

from shlex import quote

from memrelay.web.console.examples import MEMRELAY, Example
from memrelay.web.console.record.reads import RecordRef

PYTHON = """\
from memrelay import connect_sync

with connect_sync({url!r}) as client:
    record = client.records.get({uid!r}, {guid!r}, store={store!r})"""


def make_record_commands(url: str, ref: RecordRef) -> list[Example]:
    """Return the commands that read a record, and its history. `url` is that of this server."""
    options = f"{ref.uid} {quote(ref.guid)} --store {quote(ref.store)}"
    return [
        Example("curl", f"curl {quote(url + ref.api())}"),
        Example("Command line", f"{MEMRELAY} records get {options}"),
        Example("Command line, history", f"{MEMRELAY} records history {options}"),
        Example("Python", PYTHON.format(url=url, **ref._asdict())),
    ]
