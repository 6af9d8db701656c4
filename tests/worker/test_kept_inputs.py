"""A pipeline with `inputs_days` keeps its inputs in the transaction of their effects."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from memrelay.bus.codec import encode
from memrelay.bus.message import new_message
from memrelay.memory.engine.features import FEED, INPUTS
from memrelay.memory.engine.idempotency import ProducerKey
from memrelay.memory.engine.open_for_read import read_only
from memrelay.memory.engine.retention import DAY_MS, delete_expired
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.errors import Refused, StoreBusy
from memrelay.memory.models.inputs.listing import InputList, ListInputs, list_inputs
from memrelay.memory.models.inputs.packing import KeptInput, pack, unpack
from memrelay.memory.models.inputs.table import INSERT, MAX_ROWS
from memrelay.memory.operations import Context
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from memrelay.worker.run.continuations import store_result
from memrelay.worker.run.inputs import Entry
from memrelay.worker.run.store_features import find_features, find_inputs_days
from tests.support.bundles import make_agent, make_bundle, make_memory, make_relay
from tests.support.locks import locked
from tests.worker.test_batch import make_batch

A, B = "instances/p/a", "instances/p/b"
START_MS = 1_796_000_000_000
DOCS = Path(__file__).resolve().parents[2] / "docs"


def make_plan(days: float = 7, uid: str = "p") -> Plan:
    """Return a plan in which `/a` and `/b` write to two stores."""
    relays = [make_relay(name, f"^/{name} (.*)") for name in "ab"]
    writers = [
        make_memory("write", senders=f"dispatch_{one}", memory_id=f"instances/p/{one}", alias=one)
        for one in "ab"
    ]
    return Plan(check(make_bundle(uid, *relays, *writers, inputs_days=days)).accepted())


def make_entry(plan: Plan, ident: str, text: str, **fields: str) -> Entry:
    data = encode(new_message("User", "me", text, username="User", now_ms=START_MS))
    more = [part.encode() for pair in fields.items() for part in pair]
    return Entry(ident, plan, [b"swarm", b"chat", b"data", data, *more])


def open_stores(root: Path, *plans: Plan) -> OpenStores:
    stores = OpenStores(root, 10)
    stores.compose(find_features(plans, stores))
    return stores


def read_rows(stores: OpenStores, memory_id: str) -> list[list[KeptInput]]:
    found = stores.get(memory_id).connection.execute("SELECT data FROM inputs ORDER BY n")
    return [unpack(data) for (data,) in found]


def keep_result(stores: OpenStores, plan: Plan, ident: str, text: str, result: bytes) -> None:
    """Run a message that leads to a request, and store the result."""
    (outcome,) = make_batch(make_entry(plan, ident, text)).run(stores).outcomes
    (pending,) = outcome.continuations
    assert store_result(stores, outcome.store, pending._replace(result=result), plan)


def make_asking_plan(days: float = 7) -> Plan:
    """Return a plan in which `/ask` sends a request with a secret."""
    args = {
        "url": "https://example.org/{{ text }}",
        "headers": {"key": {"secret": "env:KEY", "prefix": "Bearer "}},
    }
    asking = make_agent("bot", "http_request", args, senders="dispatch_ask")
    keeping = make_memory("write", senders="bot", memory_id=A)
    relay = make_relay("ask", "^/ask (.*)")
    return Plan(check(make_bundle("p", relay, asking, keeping, inputs_days=days)).accepted())


def ids(stores: OpenStores, memory_id: str) -> list[list[str]]:
    return [[one.id for one in row] for row in read_rows(stores, memory_id)]


def test_each_store_keeps_one_row_of_a_batch_in_the_order_of_its_inputs(tmp_path: Path) -> None:
    plan = make_plan()
    stores = open_stores(tmp_path, plan)
    entries = [
        make_entry(plan, "1-0", "/a one", id="key", reply="reply:{p}:x", hop="2"),
        make_entry(plan, "2-0", "/b two"),
        make_entry(plan, "3-1", "/a three"),
        make_entry(plan, "4-0", "nobody stores this"),
    ]
    make_batch(*entries).run(stores)

    assert ids(stores, A) == [["1-0", "3-1", "4-0"]]
    assert ids(stores, B) == [["2-0"]]
    (row,) = read_rows(stores, A)
    assert row[0].fields == [*entries[0].fields[:6], b"hop", b"2"]
    assert row[1].fields == entries[2].fields
    stores.close_all()


def test_each_input_has_the_version_under_which_it_ran(tmp_path: Path) -> None:
    """An input that waits for a retry keeps its version, so a batch may have several."""
    old, new = make_plan(7), make_plan(6)
    stores = open_stores(tmp_path, new)
    make_batch(make_entry(old, "1-0", "/a one"), make_entry(new, "2-0", "/a two")).run(stores)

    (row,) = read_rows(stores, A)
    assert [one.bundle for one in row] == [old.hash[:16], new.hash[:16]]
    assert row[0].bundle != row[1].bundle
    stores.close_all()


def test_an_input_that_an_inbox_answers_is_not_kept_again(tmp_path: Path) -> None:
    plan = make_plan()
    stores = open_stores(tmp_path, plan)
    first = make_entry(plan, "1-0", "/a one", id="key")
    make_batch(first).run(stores)

    make_batch(
        first, make_entry(plan, "2-0", "/a one", id="key"), make_entry(plan, "3-0", "/a 3")
    ).run(stores)

    assert ids(stores, A) == [["1-0"], ["3-0"]]
    stores.close_all()


def test_a_batch_that_rolls_back_leaves_no_row(tmp_path: Path) -> None:
    plan = make_plan()
    stores = open_stores(tmp_path, plan)
    stores.get(A), stores.get(B)
    batch = make_batch(make_entry(plan, "1-0", "/a one"), make_entry(plan, "2-0", "/b two"))
    with locked(tmp_path / f"{B}.db"), pytest.raises(StoreBusy):
        batch.run(stores)
    assert ids(stores, A) == []

    batch.run(stores)

    assert ids(stores, A) == [["1-0"]]
    stores.close_all()


@pytest.mark.parametrize(("count", "most"), [(256, 100), (1, 180)])
def test_a_kept_write_of_100_bytes_is_small(tmp_path: Path, count: int, most: int) -> None:
    """A row has up to 30 bytes besides its data. No text occurs twice."""
    words = " ".join(re.findall(r"[A-Za-z',.]+", (DOCS / "http.md").read_text()))
    texts = [words[at : at + 100] for at in range(0, 100 * count, 100)]
    assert len(set(texts)) == count and len(texts[-1]) == 100
    plan = make_plan()
    stores = open_stores(tmp_path, plan)
    make_batch(
        *[make_entry(plan, f"{START_MS + at}-0", f"/a {text}") for at, text in enumerate(texts)]
    ).run(stores)

    (row,) = stores.get(A).connection.execute("SELECT first_ms, last_ms, change, data FROM inputs")
    assert len(read_rows(stores, A)[0]) == count
    assert len(row[3]) + 30 <= most * count
    stores.close_all()


def test_a_store_without_kept_inputs_does_not_load_them(tmp_path: Path) -> None:
    stores = open_stores(tmp_path, make_plan(0))
    make_batch(make_entry(make_plan(0), "1-0", "/a one")).run(stores)
    assert ids(stores, A) == []
    assert not stores.get(A).has_feature(INPUTS)
    stores.close_all()
    program = (
        "import sys; from pathlib import Path\n"
        "from memrelay.memory.engine.store import Store\n"
        "Store('instances/p/a', Path(sys.argv[1])).close()\n"
        "print([name for name in sys.modules if 'models.inputs.' in name])"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "other.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_shared_store_keeps_the_inputs_of_the_pipelines_that_ask_for_it(tmp_path: Path) -> None:
    plan, other, third = make_plan(), make_plan(0, "q"), make_plan(3, "r")
    plans = [plan, other, third]
    stores = open_stores(tmp_path, *plans)
    assert find_features(plans, stores)[A] == {INPUTS}
    assert find_features(plans, stores)["instances/q/memories"] == {FEED}
    assert find_inputs_days(plans)[A] == 7

    make_batch(*[make_entry(one, f"{at}-0", "/a x") for at, one in enumerate(plans, 1)]).run(stores)

    assert [(one.uid, one.id) for one in read_rows(stores, A)[0]] == [("", "1-0"), ("r", "3-0")]
    stores.close_all()


def test_the_result_of_a_request_is_kept_beside_its_input(tmp_path: Path) -> None:
    plan = make_asking_plan()
    stores = open_stores(tmp_path, plan)
    texts = {"1-0": "/ask tea", "2-0": "/ask tea", "3-0": "/ask milk"}
    for ident, text in texts.items():
        keep_result(stores, plan, ident, text, b'{"value":{"status":200}}')

    rows = read_rows(stores, A)
    results = [(one.id, one.result) for row in rows for one in row if one.result is not None]

    assert ids(stores, A) == [[ident] for ident in texts for _ in "ab"]
    assert [ident for ident, _ in results] == [*texts]
    assert {(one.agent, one.data) for _, one in results} == {("bot_", b'{"value":{"status":200}}')}
    assert [one.call_id for _, one in results] == [f"p/{ident}.2+0" for ident in texts]
    digests = [one.digest for _, one in results]
    assert digests[0] == digests[1] != digests[2]
    assert "example.org" not in repr(rows) and "env:KEY" not in repr(rows)
    reader = read_only(stores.get(A))
    context = Context(0, "", 1 << 20, str, pipeline="p", open_existing=lambda: [(0, reader)])
    listed = list_inputs(stores.get(A), ListInputs(), context)
    assert [one.id for one in listed.items] == [*texts]
    stores.close_all()


def test_results_are_small_and_kept_only_by_pipelines_that_ask_for_it(tmp_path: Path) -> None:
    """A row has up to 30 bytes besides its data."""
    plan, other = make_asking_plan(), make_asking_plan(0)
    stores = open_stores(tmp_path, plan)
    keep_result(stores, other, "1-0", "/ask tea", b"{}")
    assert ids(stores, A) == []

    result = b'{"value":{"status":200,"headers":{"content-type":"application/json"},"json":[1]}}'
    keep_result(stores, plan, "2-0", "/ask tea", result)

    sizes = [
        size for (size,) in stores.get(A).connection.execute("SELECT length(data) FROM inputs")
    ]
    assert len(sizes) == 2 and sizes[1] + 30 <= len(result) + 120
    stores.close_all()


def test_a_result_expires_with_its_input(tmp_path: Path) -> None:
    plan = make_asking_plan()
    stores = open_stores(tmp_path, plan)
    keep_result(stores, plan, f"{START_MS}-0", "/ask tea", b"{}")
    keep_result(stores, plan, f"{START_MS + DAY_MS}-0", "/ask tea", b"{}")

    assert delete_expired(stores.get(A), START_MS + 7 * DAY_MS + 1, 90, 7).gone >= 2

    assert ids(stores, A) == [[f"{START_MS + DAY_MS}-0"]] * 2
    stores.close_all()


def test_an_erasure_removes_results_that_quote_and_those_of_removed_inputs(tmp_path: Path) -> None:
    plan = make_asking_plan()
    stores = open_stores(tmp_path, plan)
    keep_result(stores, plan, "1-0", "/ask tea", b'{"value":"my secret"}')
    keep_result(stores, plan, "2-0", "/ask a secret", b'{"value":"tea"}')
    keep_result(stores, plan, "3-0", "/ask milk", b'{"value":"white"}')

    with stores.get(A).transaction() as tx:
        tx.erasures.silence(lambda data: b"secret" in data, lambda _: False, bytes, bytes)

    assert ids(stores, A) == [["1-0"], ["3-0"], ["3-0"]]
    stores.close_all()


def test_rows_of_earlier_versions_are_read(tmp_path: Path) -> None:
    fields = [b"swarm", b"chat", b"data", b"{}"]
    (old,) = unpack(pack([(1, 0, "", fields)]))  # type: ignore[list-item]

    assert old == KeptInput(1, 0, "", fields, "", None)


def test_inputs_expire_and_their_keys_stay_as_long_as_they(tmp_path: Path) -> None:
    plan = make_plan()
    stores = open_stores(tmp_path, plan)

    def run_on_day(day: float, text: str, **fields: str) -> None:
        ident = f"{START_MS + int(day * DAY_MS)}-0"
        make_batch(make_entry(plan, ident, f"/a {text}", **fields)).run(stores)

    def remembers() -> bool:
        digest = ProducerKey("p", "key", is_call=False).digest
        return stores.get(A).inbox.keys.find(digest) is not None

    run_on_day(0, "first", id="key")
    run_on_day(6, "later", id="another")
    assert remembers()  # without kept inputs, it is forgotten after 4 days
    store = stores.get(A)
    end_ms = START_MS + 7 * DAY_MS
    assert delete_expired(store, end_ms, 90, 7).next_ms == end_ms + 1
    assert len(ids(stores, A)) == 2

    assert delete_expired(store, end_ms + 1, 90, 7).gone == 1

    assert ids(stores, A) == [[f"{START_MS + 6 * DAY_MS}-0"]]
    run_on_day(11, "last", id="third")
    assert not remembers()
    assert delete_expired(store, START_MS + 11 * DAY_MS + 1, 90, 0).gone == 2
    stores.close_all()


def test_an_erasure_rewrites_the_rows_that_quote(tmp_path: Path) -> None:
    plan = make_plan()
    stores = open_stores(tmp_path, plan)
    texts = ["/a the secret is here", "/a kept", "/b elsewhere"]
    make_batch(*[make_entry(plan, f"{at}-0", text) for at, text in enumerate(texts, 1)]).run(stores)
    make_batch(make_entry(plan, "4-0", "/a more", id="my secret")).run(stores)

    def has_erased(data: bytes) -> bool:
        return b"secret" in data or data == b"chat"

    with stores.get(A).transaction() as tx:
        assert tx.erasures.silence(has_erased, lambda _: False, bytes, bytes) == 2

    assert ids(stores, A) == [["2-0"]]
    stores.close_all()


def test_the_check_reports_faults_and_the_cost_of_kept_keys() -> None:
    def check_days(days: object) -> tuple[list[str], list[str]]:
        bundle = make_bundle("p", make_memory("write"), inputs_days=days)
        report = check(bundle)
        return (
            [one.rule for one in report.faults if one.pointer == "/inputs_days"],
            [one.rule for one in report.warnings if one.pointer == "/inputs_days"],
        )

    assert check_days(4) == ([], [])
    (warning,) = check_days(7)[1]
    assert "kept for 8 days too" in warning
    assert all(check_days(wrong)[0] for wrong in (-1, 367, True, "week"))


def test_a_page_reads_a_limited_number_of_rows(tmp_path: Path) -> None:
    stores = open_stores(tmp_path, make_plan())
    store, count = stores.get(A), 2 * MAX_ROWS + 10
    rows = [(at, at, 0, pack([(at, 0, "", [b"data", b"{}"])])) for at in range(1, count + 1)]
    with store.transaction():
        store.connection.executemany(INSERT, rows)

    def list_page(**given: str) -> InputList:
        context = Context(
            0, "", 1 << 20, str, pipeline="p", open_existing=lambda: [(3, read_only(store))]
        )
        page: InputList = list_inputs(store, ListInputs(**given), context)
        return page

    pages = [list_page(since=str(count))]
    while (cursor := pages[-1].next_cursor) is not None:
        pages.append(list_page(since=str(count), cursor=cursor))

    assert [[one.id for one in page.items] for page in pages] == [[], [], [f"{count}-0"]]
    assert list_page().next_cursor == "3.101.0"
    assert list_page(store=B) == InputList((), None)
    with pytest.raises(Refused, match="`cursor` is invalid"):
        list_page(cursor="3.1")
    stores.close_all()
