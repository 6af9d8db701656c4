"""A client of Pipelit's paths, and the memory that it finds."""

from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph

from memrelay import connect_sync
from memrelay.integrations.langgraph import MemrelaySaver
from tests.support.bundles import Json
from tests.support.http import Answer, ask
from tests.support.web_system import WebSystem


class Pipelit(NamedTuple):
    """A pipeline of a server, called by Pipelit's paths with its prefix."""

    web_system: WebSystem
    uid: str

    def __call__(self, method: str, path: str, body: Json | bytes = b"") -> Answer:
        """Send a request to a path below /api/v1."""
        return ask(self.web_system.url, method, f"/p/{self.uid}/api/v1/{path}", body)

    def page(self, path: str) -> Any:
        answer = self("GET", path)
        assert answer.status == 200, answer
        return answer.json

    def delete(self, name: str, ids: list[str], field: str = "ids") -> None:
        answer = self("POST", f"{name}/batch-delete/", {field: ids})
        assert (answer.status, answer.body) == (204, b""), answer

    def operate(self, path: str, **given: Any) -> Any:
        """Call an operation by its own path."""
        answer = self.web_system.post(f"/v1/pipelines/{self.uid}/{path}", given)
        assert answer.status == 200, answer
        return answer.json

    def set_fact(self, key: str, value: Any = "x", **given: Any) -> str:
        """Write a fact and return its id."""
        return str(self.operate(f"facts/{key}/set", value=value, **given)["fact"]["id"])

    def identify(self, ident: str, name: str = "") -> str:
        """Identify a user of Telegram and return the id of the record."""
        given = {"channel": "telegram", "channel_id": ident, "display_name": name}
        return str(self.operate("users/identify", **given)["user"]["id"])

    def chat(self, thread: str, *texts: str) -> None:
        """Have a conversation with an agent that echoes each text. A turn has three checkpoints."""
        with connect_sync(self.web_system.url) as client:
            builder = StateGraph(MessagesState)
            builder.add_node("echo", _echo)
            builder.add_edge(START, "echo")
            graph = builder.compile(checkpointer=MemrelaySaver(client, uid=self.uid))
            for text in texts:
                config: Any = {"configurable": {"thread_id": thread}}
                graph.invoke({"messages": [HumanMessage(text)]}, config)


def _echo(state: MessagesState) -> Any:
    return {"messages": [AIMessage(f"Echo: {state['messages'][-1].text}")]}
