"""No operation holds the thread of the databases for long, however large its input is.

All pipelines of a worker share that thread. The bounds are processor time, so that other programs
on the machine do not count.
"""

import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from memrelay.memory.engine.store import Store
from memrelay.memory.engine.time_limit import SEARCH_S
from memrelay.memory.errors import MemoryFault
from memrelay.memory.operations import Context, Operation, all_operations
from memrelay.memory.transfer.export import export_lines, to_json
from tests.memory.builders import MEMORY_ID, NOW, RECIPES_ID, make_guid, make_store, perform
from tests.support.largest import Json, largest_inputs

# Processor time for which an operation may hold the thread, seconds.
BOUND_S = 0.25
# The indexes take 140,000 different words in 0.5 s. A message may have so many.
WRITES_S = 0.5
# Operations with another bound. docs/performance.md explains them.
EXCEPTIONS = {
    **dict.fromkeys(
        ("records.append", "records.create", "records.put", "records.update"), WRITES_S
    ),
    **dict.fromkeys(("episodes.complete", "events.append", "graph.add_nodes"), WRITES_S),
    **dict.fromkeys(("knowledge_graph.create_entities", "records.import"), WRITES_S),
    "records.update": WRITES_S,
    "checkpoints.put": WRITES_S,  # a list of 250,000 parts
    "views.define": WRITES_S,  # once, over all records
    **dict.fromkeys(("documents.search", "facts.search", "items.search"), SEARCH_S),
    **dict.fromkeys(("knowledge.context", "knowledge.search"), SEARCH_S),
    **dict.fromkeys(("knowledge_graph.search", "records.search", "graph_views.execute"), SEARCH_S),
}
# Operations whose valid input needs more than a store: a sealed value, an embedder, a worker.
NOT_READY = (
    *("items.reseal", "records.embed"),
    *("rehearsals.create", "rehearsals.delete", "rehearsals.get", "rehearsals.list"),
    "message_timings.list",
)
# Each measurement has a margin, because processors differ.
MARGIN = 2
STORES_ID = "instances/a3d8f1b2/stores"
RESULT_BYTES = 1 << 20
DEFINITION = {"id": "r", "label": "R", "retrieval": {"pipeline": [{"type": "rank"}]}}
PATTERN = {"field": "input.text", "operator": "regex"}
RULE = {"when": [{"field": "input.text", "operator": "exists"}], "then": {"add_memories": ["r"]}}
VIEW = {
    "match": {"alias": "a", "recordKind": "K"},
    "return": [{"expression": "a.name", "alias": "name"}],
}
KV = {"instance": "i", "namespace": "n"}
ITEM = {"agent": "a1", "store": "a1", "key": "k1"}
DOCUMENT = {"collection": "c", "uri": "u1"}
EVENT = {"stream_id": "s", "event_type": "e", "payload": {}}
EDGE = {"kind": "E", "from_node_id": "n1", "to_node_id": "n2"}
NAMES = [f"a{at}" for at in range(500)]
OBSERVED = {"entity": "a1", "observations": ["o"]}
RELATIONS = [{"from": f"a{at}", "to": "a0", "relation_type": "knows"} for at in range(500)]
PROCEDURE = {"name": "p1", "procedure_type": "tool_sequence", "procedure_content": []}
TOOL_PUT = {"command": "create", "path": "/memories/k", "content": "tea"}
TOOL_CALLS = [
    {"command": command, "path": f"/memories/{path}", "content": text, "query": text}
    | {"old_str": "tea", "new_str": text}
    for command in ("view", "create", "edit", "rename", "search", "delete")
    for path, text in (("k1", "w " * 400_000), ("k1", "a" * 60_000), ("/" * 900_000, "a"))
]
LARGE_TOOL_CALLS = [{"agent": "a1", "arguments": arguments} for arguments in TOOL_CALLS]
MANY = range(20_000)
LARGE_DECLARED = [
    {"view": {"name": "w", "match": {"pattern": "(a|b|c)+ tea"}, "per": "source", "show": show}}
    for show in ("count", {"latest": "key"}, {"top": {"by": "created_at"}})
]
FIELDS = {f"field{at}": {"type": "string"} for at in range(100)}
WITH_FIELDS = [{"name": "n", "kind": "customer_kind_199"}] * 1000
MISSPELLED = [{"name": "n", "kind": f"custmer_kid_{at:03}"} for at in range(1000)]
LARGE_TEMPLATES = [
    {"name": "x", "record_kinds": {f"kind{at}": {} for at in MANY}, "edge_types": edges}
    for edges in (
        {f"E{at}": {"from": "kimd", "to": "kimd"} for at in range(100)},
        {f"E{at}": {"from": "kind1", "to": "kind2"} for at in MANY[:5000]},
    )
] + [{"name": "x", "record_kinds": {"K": {"fields": {f"f{at}": {"type": "t"} for at in MANY}}}}]
LARGE_VIEWS = [
    {"name": "x", "query": VIEW | {"where": [{"field": f"a{at}", "operator": "="} for at in MANY]}},
    {"name": "x", "query": VIEW | {"return": [{"expression": f"b{at}.n"} for at in MANY]}},
    {"name": "x", "query": VIEW | {"patterns": [{"from": f"b{at}"} for at in MANY]}},
    {"name": "x", "query": VIEW | {f"mtach{at}": 1 for at in MANY}},
]
LARGE_RULES = [
    {"name": "x", "rules": rules}
    for rules in (
        [RULE] * 100,
        [RULE] * 10_000,
        [RULE | {"when": [{"field": "input.text", "operator": "exsts"}] * 20}] * 100,
        [RULE | {"when": [PATTERN | {"value": "(a|b){100}" * 3 + str(at)}]} for at in range(100)],
        [RULE | {"then": {"add_memories": ["r"] * 10_000}}],
    )
]
VARIABLES = [{"name": f"customer_value_number_{at:03}"} for at in range(200)]
SIMILAR = [f"${{customer_valeu_numbr_{at}}}" for at in range(1000)]


def define(*steps: Json, **fields: Any) -> Json:
    return {"id": "x", "label": "X", "retrieval": {"pipeline": steps}} | fields


MERGED = {"type": "merge", "sources": ["kv_get"] * 64}
DEFINITIONS = [
    define(*[{"type": "kv_get", "keys": SIMILAR}] * 8, additional_variables=VARIABLES),
    define({"type": "kv_get", "keys": ["".join(f"${{n{at}}}" for at in MANY)]}),
    define({"type": "kv_get"} | KV | {"keys": [f"k{at}" for at in range(300)]}, MERGED),
    define({"type": "kv_get"} | KV | {"keys": ["k1"] * 5000}, MERGED | {"strategy": "unique"}),
    define({"type": "rank"}, {"type": "merge", "sources": ["rank"] * 60_000}),
    define(*[{"type": "rank", "topk": 1}] * 5000),
    define(*[{"type": "rank"}] * 64, **{f"k{at}": at for at in MANY}),
]
LARGE_DEFINITIONS = [{"definition": one} for one in DEFINITIONS]
LARGE_IMPORTS = [{"config": orjson.dumps(one).decode()} for one in DEFINITIONS]
WORDS = " ".join(f"w{at}" for at in range(130_000))
LARGE_PUT = {
    "items": [
        {"scope": "s", "key": f"n{at}", "data": {"value": {"k": f"{at} {WORDS[at * 900 :][:900]}"}}}
        for at in range(1000)
    ]
}
LARGE_SETS = [
    {"definitions": [define({"type": "rank"}, id=f"x{at}") for at in range(1000)]},
    {"definitions": [define({"type": "rnak"}, id=f"x{at}") for at in range(1000)]},
]


def call(tx: Store, name: str, /, **given: Any) -> Any:
    return perform(tx, name, result_bytes=RESULT_BYTES, **given)


def fill_memories(tx: Store) -> Json:
    """Fill a store of memories. Return the ids of some rows by noun."""
    for at in range(1500):
        content = f"tea number {at} for Ada and Bob in cup {at % 7}"
        last = call(tx, "records.create", content=content, kind="note", thread="t", data={"k": at})
    memory, entry = call(tx, "memories.create", name="m").id, None
    for at in range(300):
        content = f"Ada has the ticket {at} for the train to city {at % 50}"
        other, entry = (
            entry,
            call(tx, "entries.create", memory_id=memory, content=content, mode="create"),
        )
        fact = call(tx, "facts.set", key=f"key {at}", value=f"value {at}")
        user = call(tx, "users.identify", channel="telegram", channel_id=f"c{at}", display_name="A")
    episode = call(tx, "episodes.begin", agent_id="a1", user_id="u").id
    for at in range(100):
        call(tx, "episodes.add", id=episode, text=f"said {at}")
        procedure = call(
            tx,
            "procedures.save",
            name=f"p{at}",
            procedure_type="tool_sequence",
            procedure_content=[{"tool": "get"}],
            trigger_conditions={"goal_contains": [f"goal{at}"]},
        )
    for at in range(500):
        item = {"scope": "s", "key": f"k{at}", "data": {"value": {"k": at}}}
        call(tx, "records.put", items=[item])
    call(tx, "checkpoints.put", id="c1", thread="t")
    return {
        "guid": last.guid,
        "memory": memory,
        "entry": entry.id,
        "other_entry": other.id,
        "fact": fact.fact.id,
        "user": user.user.id,
        "episode": episode,
        "procedure": procedure.procedure.id,
    }


def fill_recipes(tx: Store) -> Json:
    call(tx, "recipes.create", definition=DEFINITION)
    call(tx, "rules.create", id="e", name="E", rules=[RULE])
    for at in range(300):
        call(tx, "kv.set", **KV, key=f"k{at}", value={"k": at}, auto_create=True)
    events = [{"stream_id": "s", "event_type": "e", "payload": {"k": at}} for at in range(1000)]
    call(tx, "events.append", instance="i", events=events, auto_create=True)
    call(tx, "instances.create", sort="graph", name="g")
    graph = call(tx, "instances.list", sort="graph").items[0].id
    nodes = [{"id": f"n{at}", "name": f"N{at}", "kind": "K"} for at in range(1000)]
    call(tx, "graph.add_nodes", instance=graph, nodes=nodes)
    edges = [
        {"id": f"e{at}", "kind": "E", "from_node_id": f"n{at % 30}", "to_node_id": f"n{at}"}
        for at in range(1000)
    ]
    call(tx, "graph.add_edges", instance=graph, edges=edges)
    for at in range(50):
        call(tx, "documents.put", collection="c", uri=f"u{at}", text=f"tea number {at} " * 50)
    entities = [{"name": f"a{at}", "entity_type": "t", "observations": ["o"]} for at in range(500)]
    call(tx, "knowledge_graph.create_entities", entities=entities)
    call(tx, "graph_templates.create", id="t", name="t", record_kinds={"K": {}})
    kinds: Json = {f"customer_kind_{at:03}": {} for at in range(200)}
    kinds["customer_kind_199"] = {"fields": FIELDS}
    call(tx, "graph_templates.create", id="u", name="u", record_kinds=kinds)
    call(tx, "instances.create", sort="graph", name="checked", template_id="u")
    checked = next(one for one in call(tx, "instances.list", sort="graph").items if one.id != graph)
    call(tx, "view_templates.create", id="t", name="t", query=VIEW)
    call(tx, "view_templates.create", id="w", name="w", query=VIEW)
    call(tx, "graph_views.create", id="v", template_id="t", instance=graph)
    return {"graph": graph, "checked": checked.id}


def fill_stores(tx: Store) -> Json:
    for at in range(500):
        call(tx, "items.put", agent="a1", store="a1", key=f"k{at}", value=f"tea {at}")
    for at in range(100):
        call(tx, "contexts.open", sort="chat", id=f"c{at}", agent="a1")
        call(tx, "grants.set", agent="a1", store="a1", grantee=f"g{at}")
    return {}


def lines_of(root: Path) -> list[str]:
    """Return the lines of an export of 1,000 records and of one with a long text."""
    store = make_store(root, "instances/c0ffee00/memories")
    with store.transaction() as tx:
        for at in range(1000):
            call(tx, "records.create", content=f"imported tea {at} " * 20, data={"k": at})
        call(tx, "records.create", content=WORDS)
    store.close()
    lines = export_lines(Path(store.path), store.memory_id, NOW)
    return [to_json(line).decode() for line in lines]


def fill_endpoints(tx: Store) -> Json:
    """Fill in 100 endpoints with 200 deliveries each, less one endpoint."""
    made = [call(tx, "endpoints.create", url="https://example.com/hook") for _ in range(99)]
    for one in made:
        for _ in range(200):
            sent = call(tx, "endpoints.test", id=one.endpoint.id)
    return {"endpoint": made[0].endpoint.id, "delivery": sent.delivery}


FILLS = {
    "memories": fill_memories,
    "recipes": fill_recipes,
    "stores": fill_stores,
    "endpoints": fill_endpoints,
}
IDS = {
    "memories": MEMORY_ID,
    "recipes": RECIPES_ID,
    "stores": STORES_ID,
    "endpoints": "instances/c0ffee00/endpoints",
}


GRAPH = {"instance": "$graph"}
ENTRY, RECORD = {"id": "$entry"}, {"guid": "$guid"}
AGENT = {"agent": "a1"}
ENDPOINT, ENDPOINT_OF = {"id": "$endpoint"}, {"endpoint": "$endpoint"}
THREAD = {"thread": "t"}
CHAT = {"sort": "chat", "id": "c1", "agent": "a1"}
# A valid input of each operation, of which the test varies each field, and further large ones.
# `$guid` stands for an id of the filled stores.
INPUTS: dict[str, tuple[Json, ...]] = {
    "assembly.assemble": ({"scope_variables": {}, "explicit_memory": ["r"]},),
    "assembly.required_variables": ({"memory_ids": ["r"]},),
    "assembly.validate": ({"scope_variables": {}, "explicit_memory": ["r"]},),
    "capture.context": ({"project": "git.example.com/team/app"},),
    "capture.sessions": ({},),
    "changes.list": ({},),
    "waiting_messages.list": ({},),
    "message_timings.list": ({"entry": "1780000000000-0"},),
    "checkpoints.copy": ({"source": "t", "target": "t2"},),
    "checkpoints.delete": ({"threads": ["t"]},),
    "checkpoints.forget_runs": ({"runs": ["r"]},),
    "checkpoints.get": ({"id": "c1"} | THREAD,),
    "checkpoints.list": (THREAD,),
    "checkpoints.prune": ({"threads": ["t"]},),
    "checkpoints.put": ({"id": "c2"} | THREAD,),
    "checkpoints.write": ({"id": "c1", "task": "k"} | THREAD,),
    "contexts.close": (CHAT,),
    "contexts.list": (AGENT,),
    "contexts.open": (CHAT,),
    "conversations.clear": (THREAD,),
    "conversations.history": (THREAD,),
    "documents.collections": ({},),
    "documents.delete": (DOCUMENT,),
    "documents.get": (DOCUMENT,),
    "documents.list": ({"collection": "c"},),
    "documents.put": (DOCUMENT | {"text": "tea"},),
    "documents.search": ({"collection": "c", "query": "tea", "mode": "fts"},),
    "entries.create": ({"memory_id": "$memory", "content": "Ada has a ticket"},),
    "entries.delete": (ENTRY,),
    "entries.get": (ENTRY,),
    "entries.list": ({"memory_id": "$memory"},),
    "entries.merge": (ENTRY | {"other_id": "$other_entry"},),
    "entries.update": (ENTRY | {"content": "tea"},),
    "episodes.add": ({"id": "$episode", "text": "x"},),
    "episodes.begin": ({"agent_id": "a1"},),
    "episodes.complete": ({"id": "$episode", "success": True},),
    "episodes.delete_many": ({"ids": ["$episode"]},),
    "episodes.get": ({"id": "$episode"},),
    "episodes.list": ({},),
    "episodes.rate": ({"id": "$episode", "rating": 1},),
    "deliveries.get": ({"id": "$delivery"},),
    "deliveries.list": ({},),
    "deliveries.redeliver": ({"id": "$delivery"},),
    "deliveries.redeliver_many": (ENDPOINT_OF,),
    "endpoints.create": ({"url": "https://example.com"},),
    "endpoints.delete": (ENDPOINT,),
    "endpoints.enable": (ENDPOINT,),
    "endpoints.get": (ENDPOINT,),
    "endpoints.list": ({},),
    "endpoints.recover": (ENDPOINT | {"missing": True},),
    "endpoints.rotate": (ENDPOINT,),
    "endpoints.test": (ENDPOINT,),
    "endpoints.update": (ENDPOINT,),
    "events.append": ({"instance": "i", "events": [EVENT]},),
    "events.query": ({"instance": "i"},),
    "facts.delete": ({"id": "$fact"},),
    "facts.delete_many": ({"ids": ["$fact"]},),
    "facts.get": ({"key": "key 1"},),
    "facts.list": ({},),
    "facts.recall": ({"key": "key 1"},),
    "facts.search": ({"query": "key"},),
    "facts.set": ({"key": "key 1", "value": "v"},),
    "grants.list": (AGENT,),
    "grants.remove": (AGENT | {"store": "a1", "grantee": "g1"},),
    "grants.set": (AGENT | {"store": "a1", "grantee": "g1"},),
    "graph.add_edges": (GRAPH | {"edges": [EDGE]},),
    "graph.add_nodes": (
        GRAPH | {"nodes": [{"name": "n", "kind": "K"}]},
        {"instance": "$checked", "nodes": MISSPELLED},
        {"instance": "$checked", "nodes": WITH_FIELDS},
    ),
    "graph.delete_edge": (GRAPH | {"id": "e1"},),
    "graph.delete_node": (GRAPH | {"id": "n1"},),
    "graph.expand": (GRAPH | {"node_id": "n1"},),
    "graph.get_node": (GRAPH | {"id": "n1"},),
    "graph.list_edges": (GRAPH,),
    "graph.list_nodes": (GRAPH,),
    "graph.subgraph": (GRAPH,),
    "graph.update_node": (GRAPH | {"id": "n1"},),
    "graph_templates.create": ({"name": "x", "record_kinds": {"K": {}}}, *LARGE_TEMPLATES),
    "graph_templates.delete": ({"id": "t"},),
    "graph_templates.get": ({"id": "t"},),
    "graph_templates.list": ({},),
    "graph_templates.update": ({"id": "t"},),
    "graph_views.create": ({"template_id": "t"} | GRAPH,),
    "graph_views.delete": ({"id": "v"},),
    "graph_views.execute": ({"id": "v"},),
    "graph_views.get": ({"id": "v"},),
    "graph_views.list": ({},),
    "inputs.list": ({},),
    "policies.apply": ({},),
    "policies.delete": ({"name": "x"},),
    "policies.list": ({},),
    "policies.scan": ({},),
    "policies.set": ({"policy": {"name": "x", "match": {}, "action": {"tag": "a"}}},),
    "policies.test": ({"content": "tea"},),
    "policies.verdicts": ({},),
    "reviews.approve": ({"policy": "p"},),
    "reviews.edit": ({"guid": "g", "content": "tea"},),
    "reviews.get": ({"guid": "g"},),
    "reviews.list": ({},),
    "reviews.reject": ({"policy": "p"},),
    "receipts.get": ({"id": "r"},),
    "receipts.list": ({},),
    "instances.create": ({"sort": "kv", "name": "x"},),
    "instances.delete": ({"sort": "kv", "id": "i"}, {"sort": "graph", "id": "$graph"}),
    "instances.get": ({"sort": "kv", "id": "i"},),
    "instances.list": ({"sort": "kv"},),
    "instances.update": ({"sort": "kv", "id": "i"},),
    "items.delete": (ITEM,),
    "items.edit": (ITEM | {"old_str": "tea", "new_str": "x"},),
    "items.get": (ITEM,),
    "items.list": (AGENT | {"store": "a1"},),
    "items.put": (ITEM | {"value": "v"},),
    "items.rename": (ITEM | {"to_store": "a1", "to_key": "k"},),
    "items.reseal": ({"store": "a1", "key": "k1", "owner": "a1", "value": "v1.x"},),
    "items.search": (AGENT | {"query": "tea"},),
    "knowledge.context": ({"query": "ticket"},),
    "knowledge.search": ({"query": "ticket"},),
    "knowledge_graph.add_observations": ({"items": [OBSERVED]},),
    "knowledge_graph.create_entities": ({"entities": []},),
    "knowledge_graph.create_relations": ({"relations": []}, {"relations": RELATIONS}),
    "knowledge_graph.delete_entities": ({"names": NAMES},),
    "knowledge_graph.delete_observations": ({"items": [OBSERVED]},),
    "knowledge_graph.delete_relations": ({"relations": []}, {"relations": RELATIONS}),
    "knowledge_graph.open": ({"names": NAMES},),
    "knowledge_graph.read": ({},),
    "knowledge_graph.search": ({"query": "a"},),
    "kv.clear": (KV,),
    "kv.count": ({"instance": "i"},),
    "kv.delete": (KV | {"key": "k1"},),
    "kv.get": (KV | {"keys": [f"k{at}" for at in range(300)]},),
    "kv.namespaces": ({"instance": "i"},),
    "kv.query": (KV,),
    "kv.set": (KV | {"key": "k1", "value": 1},),
    "memories.create": ({"name": "x"},),
    "memories.delete": ({"id": "$memory"},),
    "memories.get": ({"id": "$memory"},),
    "memories.list": ({},),
    "memories.update": ({"id": "$memory"},),
    "turns.add": (
        {"messages": [{"content": "tea"}]},
        {"messages": [{"content": f"tea {n}", "id": str(n)} for n in range(1000)]},
    ),
    "turns.clear": ({},),
    "turns.list": (THREAD,),
    "turns.pop": (THREAD,),
    "turns.threads": ({},),
    "extraction.status": ({},),
    "memory_tool.read": (AGENT | {"arguments": {"action": "list"}}, *LARGE_TOOL_CALLS),
    "memory_tool.write": (AGENT | {"arguments": TOOL_PUT}, *LARGE_TOOL_CALLS),
    "procedures.delete_many": ({"ids": ["$procedure"]},),
    "procedures.get": ({"id": "$procedure"},),
    "procedures.list": ({},),
    "procedures.match": ({"goal": "goal1"},),
    "procedures.retire": ({"id": "$procedure"},),
    "procedures.save": (PROCEDURE,),
    "procedures.use": ({"id": "$procedure", "success": True},),
    "recipes.changes": ({},),
    "recipes.create": ({"definition": DEFINITION | {"id": "x"}}, *LARGE_DEFINITIONS),
    "recipes.delete": ({"id": "r"},),
    "recipes.duplicate": ({"id": "r"},),
    "recipes.execute": ({"id": "r"}, *LARGE_DEFINITIONS),
    "recipes.export": ({"id": "r"},),
    "recipes.get": ({"id": "r"},),
    "recipes.import": ({"config": DEFINITION, "overwrite": True}, *LARGE_IMPORTS),
    "recipes.list": ({},),
    "recipes.specs": ({},),
    "recipes.store": ({"definitions": [DEFINITION]}, *LARGE_SETS),
    "recipes.update": ({"id": "r", "definition": DEFINITION},),
    "recipes.validate": ({"definition": DEFINITION}, *LARGE_DEFINITIONS),
    "records.append": (RECORD | {"content": "x"},),
    "records.create": ({"content": "x"},),
    "records.delete": (RECORD,),
    "records.embed": ({},),
    "records.erase": ({"guids": ["$guid"]},),
    "records.erasures": ({},),
    "records.find": ({"scope": "s", "keys": [f"k{at}" for at in range(500)]},),
    "records.get": (RECORD,),
    "records.history": (RECORD,),
    "records.uses": (RECORD,),
    "records.origin": (RECORD,),
    "records.subjects": ({}, {"sort": "thread"}),
    "records.timeline": ({"name": "u1"}, {"name": "tester", "sort": "agent", "limit": 1000}),
    "records.undo": ({"since": "0"}, {"source": "tester", "dry_run": True}),
    "records.import": ({"lines": []}, {"lines": "$lines"}, {"lines": "$long_line"}),
    "records.list": ({},),
    "records.put": ({"items": [{"scope": "s", "key": "k1", "data": {"value": {}}}]}, LARGE_PUT),
    "records.remove": ({"scope": "s", "keys": [f"k{at}" for at in range(500)]},),
    "records.restore": (RECORD | {"number": 1},),
    "records.scopes": ({},),
    "records.search": ({"query": "tea"}, {"query": "tea cup", "mode": "hybrid", "limit": 1000}),
    "records.touch": ({"guids": ["$guid"]},),
    "records.update": (RECORD | {"content": "x"},),
    "rehearsals.create": ({"bundle": {}},),
    "rehearsals.delete": ({"id": "a1"},),
    "rehearsals.get": ({"id": "a1"},),
    "rehearsals.list": ({},),
    "rules.create": ({"name": "x", "rules": [RULE]}, *LARGE_RULES),
    "rules.delete": ({"id": "e"},),
    "rules.evaluate": ({"scope_variables": {}, "input": {"text": "x"}},),
    "rules.get": ({"id": "e"},),
    "rules.list": ({},),
    "rules.update": ({"id": "e", "rules": [RULE]},),
    "rules.variables": ({},),
    "stores.configure": (AGENT,),
    "stores.list": (AGENT,),
    "users.context": ({"id": "$user"},),
    "users.delete_many": ({"ids": ["$user"]},),
    "users.forget": ({"id": "$user"},),
    "users.get": ({"id": "$user"},),
    "users.identify": ({"channel": "telegram", "channel_id": "c1"},),
    "users.list": ({},),
    "users.merge": ({"id": "telegram:c1", "into": "$user"},),
    "users.update": ({"id": "$user"},),
    "view_templates.create": ({"name": "x", "query": VIEW}, *LARGE_VIEWS),
    "view_templates.delete": ({"id": "w"},),
    "view_templates.get": ({"id": "t"},),
    "view_templates.list": ({},),
    "view_templates.update": ({"id": "t"},),
    "views.about": ({"of": "x"},),
    "views.define": ({"view": {"name": "v", "show": "count"}}, *LARGE_DECLARED),
    "views.delete": ({"id": "v"},),
    "views.get": ({"id": "v"},),
    "views.list": ({},),
    "views.parts": ({"id": "v"},),
}


def with_ids(value: Any, ids: Json) -> Any:
    """Return a JSON value with the ids of the filled stores."""
    if isinstance(value, dict):
        return {key: with_ids(one, ids) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [with_ids(one, ids) for one in value]
    is_name = isinstance(value, str) and value.startswith("$")
    return ids.get(value[1:], value) if is_name else value


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Store], Json]]:
    root = tmp_path_factory.mktemp("stores")
    stores = {name: make_store(root, id_) for name, id_ in IDS.items()}
    lines = lines_of(root)
    ids: Json = {
        "lines": [line for line in lines if len(line) < 10_000][:1000],
        "long_line": [line for line in lines if len(line) > 100_000],
    }
    for name, fill in FILLS.items():
        with stores[name].transaction() as tx:
            ids |= fill(tx)
    yield stores, ids
    for store in stores.values():
        store.close()


def test_each_operation_has_an_input() -> None:
    assert INPUTS.keys() == all_operations().keys()
    assert EXCEPTIONS.keys() <= INPUTS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", all_operations())
def test_no_operation_holds_the_thread(filled: tuple[dict[str, Store], Json], name: str) -> None:
    stores, ids = filled
    operation = all_operations()[name]
    store = stores.get(operation.store, stores["memories"])
    base, *others = with_ids(INPUTS[name], ids)
    assert name in NOT_READY or measure(store, operation, base)[1] == ""

    for given in (*largest_inputs(operation, base), *others):
        seconds, _ = measure(store, operation, given)

        assert seconds < MARGIN * EXCEPTIONS.get(name, BOUND_S), describe(given)


def measure(store: Store, operation: Operation, given: Json) -> tuple[float, str]:
    """Return the processor time of the longest part, and the error, "" without one."""
    text = orjson.dumps(given)
    context = Context(NOW, "tester", RESULT_BYTES, make_guid)
    longest_s, error = 0.0, ""
    with store.trial() as tx:
        began_s = time.thread_time()
        try:
            wanted = operation.adapter.validate_json(text, strict=True)
            if operation.begin is None:
                operation.run(tx, wanted, context)
            else:
                longest_s, began_s = drive(operation.begin(tx, wanted, context), tx, began_s)
            tx.complete()
        except (MemoryFault, ValidationError) as refused:
            error = str(refused)
        return max(longest_s, time.thread_time() - began_s), error


def drive(steps: Generator[None, Any, Any], tx: Store, began_s: float) -> tuple[float, float]:
    """Run the parts of a stepwise operation, between which a worker serves others.

    Return the longest time, and the beginning of the last part.
    """
    longest_s = 0.0
    received = None
    while True:
        try:
            steps.send(received)
        except StopIteration:
            return longest_s, began_s
        received = tx
        longest_s, began_s = max(longest_s, time.thread_time() - began_s), time.thread_time()


def describe(given: Json) -> str:
    return str({name: f"{str(value)[:80]} ({len(str(value))})" for name, value in given.items()})
