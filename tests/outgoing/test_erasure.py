"""An erased text stands in no delivery row, no kept input and no log."""

from memrelay.memory.models.inputs.packing import unpack
from tests.support.bundles import make_bundle, make_uid
from tests.support.calls import call
from tests.support.erasures import await_erasure, files_with
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.webhook_receiver import Reply, WebhookReceiver

WORD, OTHER = "zwitscherling", "goldammer"


def read_inputs(system: TestSystem, uid: str) -> bytes:
    """Return the kept inputs of a pipeline as bytes; in the file they are compressed."""
    rows = system.rows(uid, "SELECT data FROM inputs ORDER BY n")
    return b"".join(field for (data,) in rows for one in unpack(data) for field in one.fields)


def test_erased_content_is_in_no_delivery_kept_input_or_log() -> None:
    """The receiver quotes the record: one delivery has failed for now, the other was accepted."""
    quote = Reply(500, f"no {WORD} here".encode())
    with TestSystem() as system, WebhookReceiver(quote, usual=quote._replace(status=200)) as got:
        worker, uid = system.start_worker(outgoing={"open_for": ["endpoints"]}), make_uid()
        system.deploy(make_bundle(uid, inputs_days=7))
        for name in ("a", "b"):
            call(system, uid, "endpoints.create", {"url": got.url, "description": name})
        system.client.answer(uid, f"/write {WORD}")
        system.client.answer(uid, f"/write {OTHER}")
        got.wait(4)

        def count_tries() -> int:
            ((count,),) = system.rows(uid, "SELECT count(*) FROM delivery_tries", "endpoints")
            return int(count)

        wait_for(lambda: count_tries() == 4, "the answers are kept")
        before = files_with(system, WORD.encode())
        assert any(name.endswith("endpoints.db") or "endpoints.db-wal" in name for name in before)
        assert WORD.encode() in read_inputs(system, uid)

        got.usual = Reply()
        call(system, uid, "records.erase", {"text": WORD})
        await_erasure(system, uid)

        wait_for(lambda: not files_with(system, WORD.encode()), "no file has the word")
        kept = read_inputs(system, uid)
        assert WORD.encode() not in kept and OTHER.encode() in kept
        assert WORD not in worker.output and OTHER not in worker.output
