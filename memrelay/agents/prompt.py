"""The messages before a conversation: the system prompt and the retrieved knowledge."""

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from memrelay.agents.history import PROMPT_ID

FOLLOW = "[System instructions — follow these for the entire conversation]"


def system_messages(prompt: str, knowledge: str) -> list[BaseMessage]:
    """Return the system messages of one request. They are never stored."""
    return [SystemMessage(text) for text in (prompt, knowledge) if text]


def fallback_messages(prompt: str) -> list[BaseMessage]:
    """Return the prompt as a message of the user, for services that ignore the system role.

    Its id is always the same, so that a conversation contains it once.
    """
    return [HumanMessage(f"{FOLLOW}\n{prompt}", id=PROMPT_ID)] if prompt else []
