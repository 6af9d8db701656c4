"""The groups of the API reference: the tag of each route, with a title and a description."""

from typing import NamedTuple

from memrelay.web.server.error_dialects import PIPELINE_PREFIX

RECORDS, MODELS, AGENTS = "Records and search", "Memory models", "Agent memory"
RECIPES, PIPELINES, APIS = "Recipes and graphs", "Pipelines and messages", "Compatible APIs"
SERVER = "Server"
# The sections of the overview, in their order.
SECTIONS = (PIPELINES, RECORDS, MODELS, AGENTS, RECIPES, APIS, SERVER)
# Packages whose handwritten routes form one group. Other groups have the name of the module.
PACKAGES = {"memrelay.web.console": "console", "memrelay.web.mcp": "mcp"}
MODULES = {
    "memrelay.web.api.replays": "inputs",
    "memrelay.web.api.tries": "pipelines",
    "memrelay.web.api.webhook_requests": "webhooks",
    "memrelay.web.trace.trace": "messages",
    "memrelay.web.trace.search_route": "messages",
    "memrelay.web.openapi.pages": "console",
}
# Parts of a dialect by the first part of the path. Other paths belong to the dialect itself.
PARTS = {
    ("codebolt", "context-assembly"): "codebolt_contexts",
    ("codebolt", "context-rule-engine"): "codebolt_contexts",
    ("codebolt", "eventlog"): "codebolt_data",
    ("codebolt", "kvstore"): "codebolt_data",
    ("codebolt", "kg"): "codebolt_graphs",
}


class Group(NamedTuple):
    """A group of routes. `description` is one sentence."""

    title: str
    section: str
    description: str


GROUPS = {
    "pipelines": Group("Pipelines", PIPELINES, "Deploy bundles, list versions and roll back."),
    "blocks": Group(
        "Blocks", PIPELINES, "List the blocks with their arguments, and templates; try patterns."
    ),
    "pipeline_secrets": Group("Secrets", PIPELINES, "Store secrets of a pipeline."),
    "messages": Group("Messages", PIPELINES, "Send messages to swarms and read their logs."),
    "webhooks": Group(
        "Webhooks", PIPELINES, "Deliver messages of other services to an agent; list requests."
    ),
    "dead_letters": Group("Dead letters", PIPELINES, "List, replay and drop failed messages."),
    "endpoints": Group("Endpoints", PIPELINES, "Send signed webhooks when a memory changes."),
    "deliveries": Group(
        "Deliveries", PIPELINES, "Follow the webhooks to endpoints, and send them again."
    ),
    "inputs": Group("Inputs", PIPELINES, "List the inputs that a pipeline keeps; run them again."),
    "rehearsals": Group(
        "Rehearsals", PIPELINES, "See what another bundle would have made of the same inputs."
    ),
    "receipts": Group(
        "Receipts", RECORDS, "Show which records an answer was based on, and in which version."
    ),
    "policies": Group(
        "Policies", RECORDS, "Decide what may enter a store: redact, refuse, review, tag, limit."
    ),
    "reviews": Group(
        "Reviews", RECORDS, "Approve, edit or reject the writes that a policy holds for review."
    ),
    "views": Group(
        "Views", RECORDS, "Keep aggregates of records: the latest, the first, or how many."
    ),
    "records": Group("Records", RECORDS, "Write, search, change, restore and erase records."),
    "changes": Group("Changes", RECORDS, "Follow the changes of a store in order."),
    "waiting_messages": Group(
        "Waiting messages", PIPELINES, "List messages that wait for the flow control of an agent."
    ),
    "message_timings": Group(
        "Message timings", PIPELINES, "List when the worker ran a message, and for how long."
    ),
    "stores": Group("Stores", RECORDS, "List the stores of an agent and configure them."),
    "memories": Group("Named memories", MODELS, "Create and change collections of entries."),
    "entries": Group("Entries", MODELS, "Write entries of named memories without duplicates."),
    "knowledge": Group("Knowledge", MODELS, "Search the entries of memories by meaning."),
    "items": Group("Items", MODELS, "Store values of agents under keys, with sharing."),
    "grants": Group("Grants", MODELS, "Share the store of an agent with other agents."),
    "memory_tool": Group("Memory tool", MODELS, "Carry out calls of a model's memory tool."),
    "contexts": Group("Contexts", MODELS, "Let agents use the store of a chat or user."),
    "facts": Group("Facts", AGENTS, "Set, recall and search facts by their keys."),
    "episodes": Group("Episodes", AGENTS, "Record the runs of agents with steps and outcome."),
    "procedures": Group("Procedures", AGENTS, "Save and match procedures that agents learned."),
    "users": Group("Users", AGENTS, "Identify users across channels, merge and forget them."),
    "checkpoints": Group("Checkpoints", AGENTS, "Store the checkpoints of LangGraph threads."),
    "turns": Group("Turns", AGENTS, "Keep the messages of conversations in order."),
    "extraction": Group(
        "Extraction", AGENTS, "See how far models have made facts and summaries of turns."
    ),
    "capture": Group("Capture", AGENTS, "List captured sessions of coding tools; give context."),
    "conversations": Group("Conversations", AGENTS, "Read and clear conversations."),
    "recipes": Group("Recipes", RECIPES, "Define, validate and run recipes."),
    "rules": Group("Rules", RECIPES, "Define and evaluate rules that choose recipes."),
    "assembly": Group("Context assembly", RECIPES, "Combine the items of recipes into a context."),
    "documents": Group("Documents", RECIPES, "Store documents in collections and search them."),
    "kv": Group("Key-value stores", RECIPES, "Store values by namespace and key, and query them."),
    "events": Group("Event logs", RECIPES, "Append events, and find or aggregate them."),
    "instances": Group("Instances", RECIPES, "Create the stores, logs and graphs of recipes."),
    "graph": Group("Graphs", RECIPES, "Add, change and traverse nodes and edges."),
    "graph_templates": Group("Graph templates", RECIPES, "Declare the kinds of nodes and edges."),
    "graph_views": Group("Graph views", RECIPES, "Bind a query to a graph and run it."),
    "view_templates": Group("View templates", RECIPES, "Define queries over graphs."),
    "knowledge_graph": Group(
        "Knowledge graph", RECIPES, "Keep entities, relations and observations."
    ),
    "mcp": Group("MCP", APIS, "Serve the memory tools to MCP clients."),
    "soat": Group("SOAT", APIS, "The memory API of SOAT."),
    "robutler": Group("Robutler", APIS, "The storage API of Robutler."),
    "pipelit": Group("Pipelit", APIS, "The memory and chat history API of Pipelit."),
    "codebolt": Group("Codebolt recipes", APIS, "The persistent memory API of Codebolt."),
    "codebolt_contexts": Group(
        "Codebolt contexts", APIS, "The context assembly and rule engine API of Codebolt."
    ),
    "codebolt_data": Group("Codebolt data", APIS, "The key-value and event log API of Codebolt."),
    "codebolt_graphs": Group("Codebolt graphs", APIS, "The knowledge graph API of Codebolt."),
    "keys": Group("Keys", SERVER, "List, create and revoke keys."),
    "figures": Group("Figures", SERVER, "Show the recorded figures of a day or a week."),
    "health": Group("Health", SERVER, "Liveness, readiness, status and metrics."),
    "console": Group("Console", SERVER, "The pages of the console, with login and logout."),
}


def find_group(module: str) -> str:
    """Return the group of a handwritten route by the module of its handler."""
    for package, name in PACKAGES.items():
        if module.startswith(f"{package}."):
            return name
    return MODULES.get(module, module.rpartition(".")[2])


def find_dialect_group(dialect: str, path: str) -> str:
    """Return the group of a route of a dialect by its path, which may name the pipeline."""
    first = path.removeprefix(PIPELINE_PREFIX).split("/")[1]
    return PARTS.get((dialect, first), dialect)


def describe_tag(name: str) -> dict[str, str]:
    """Return the OpenAPI description of a group. Raises LookupError for an undeclared group."""
    if name not in GROUPS:
        raise LookupError(f"the group {name!r} of routes has no title; add it to GROUPS")
    return {"name": name, "description": GROUPS[name].description}
