"""What a model does with the memory of a user, for adapters: remember a fact, and search."""

from typing import Any

import orjson

from memrelay.errors import Refused, RelayError
from memrelay.integrations.recall import Recall, describe

FACT = "fact"
MAX_RESULTS = 10
MAX_CONTENT = 4_000  # characters of a result
INVALID = 422
NOTHING = "Nothing was found."


class MemoryTools:
    """The tools `remember` and `search`. Their docstrings are written for models.

    - `call` is a store of `open_store`, or a client of `connect` or `connect_sync`.
    - `user` is the person whose memory it is, by default everyone's. `agent` is the program.
    - `uid` is the pipeline of a client, by default its only one. `store` is the memory_id.

    Raises TypeError for another `call`.
    """

    def __init__(
        self, call: Any, *, user: str = "", agent: str = "", uid: str = "", store: str = ""
    ) -> None:
        self._recall = Recall(call, user=user, uid=uid, store=store)
        self._user, self._agent = user, agent

    async def remember(self, fact: str) -> str:
        """Keep a lasting fact for later conversations.

        Args:
            fact: One fact as a complete sentence, such as "Ada is allergic to nuts".
        """
        record = {"content": fact, "kind": FACT, "owner": self._user}
        record |= {"source": self._agent} if self._agent else {}
        try:
            await self._recall.calls.arun("records.create", record)
        except (Refused, RelayError) as error:
            return _explain(error)
        return "Remembered."

    async def search(self, query: str) -> str:
        """Search the memory: remembered facts and earlier conversations. The best come first.

        Args:
            query: Words or a question.
        """
        try:
            results = await self.find(query)
        except (Refused, RelayError) as error:
            return _explain(error)
        return orjson.dumps(results).decode() if results else NOTHING

    async def find(self, query: str) -> list[dict[str, Any]]:
        """Return the texts that match a query, the best first, each with its speaker and time.

        Raises MemoryFault or RelayError.
        """
        found = self._recall.records(query, MAX_RESULTS, {})
        records = await self._recall.calls.arun_steps(found)
        return [describe(record, MAX_CONTENT) for record in records]


def _explain(error: Refused | RelayError) -> str:
    """Return what is wrong with the input, for the model. Raises other errors."""
    if isinstance(error, RelayError):
        if error.status != INVALID:
            raise error
        rules = [f"{fault['pointer']}: {fault['rule']}" for fault in error.faults]
        return f"Error: {'; '.join(rules) or error.detail}"
    return f"Error: {error}"
