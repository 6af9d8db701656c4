"""The terms that pages explain: a button next to the word opens the text."""

TERMS = {
    "agent": "A part of a pipeline. It listens to a swarm, runs its block and publishes results.",
    "append-only file": "The file in which the bus keeps all messages, so that none is lost.",
    "block": "The work of an agent, such as writing a record or calling a model.",
    "bundle": "The JSON file that describes a pipeline: its agents, swarms, stores and policies.",
    "bus": "The message server that carries the messages between agents.",
    "checkpoint": "The saved state of a conversation of LangGraph.",
    "dead letter": "A message that failed in every attempt. It is kept until it is replayed or "
    "dropped.",
    "episode": "One run of an agent, with its steps and its outcome.",
    "heartbeat": "The sign of life that a worker sends each second.",
    "lag": "Messages that wait for the worker. A lag that grows means that more arrives than is "
    "processed.",
    "loop lag": "How late the worker gets to a task that is due. Below 50 ms is normal.",
    "pending vectors": "Records whose vector is still to be computed. Until then the search finds "
    "them by their words.",
    "recipe": "A stored query that collects the items for an intent, such as a question.",
    "rehearsal": "A run of kept messages under another bundle, on copies, to see the difference.",
    "scope": "The context that a record belongs to, such as a store, a project or a user.",
    "swarm": "A named channel. All agents that listen to it get each message.",
    "vector": "A list of numbers for the meaning of a text. Texts with similar vectors have "
    "similar meanings.",
    "WAL": "Write-ahead log: changes are first added to this file, then moved into the store. It "
    "shrinks by itself.",
}
