"""The prompts that a user selects: recall before an answer, and remember a text."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

import mcp_types as types
from mcp.shared.exceptions import MCPError

from memrelay.web.mcp.tool import Target

# Characters of an argument.
MAX_ARGUMENT = 10_000
TOKEN_BUDGET = 2000
PIPELINE = types.PromptArgument(
    name="pipeline", description="The uid of the pipeline.", required=True
)
NOTHING_FOUND = "The memory contains nothing about it."


class _Prompt(NamedTuple):
    """A prompt, the operation that it needs, and the function that returns its text."""

    declaration: types.Prompt
    operation: str
    write: Callable[[Target, Mapping[str, str]], Awaitable[str]]


def list_prompts(targets: Sequence[Target]) -> types.ListPromptsResult:
    """Return the prompts that the client's key allows."""
    found = [
        _declare(prompt, targets)
        for prompt in _PROMPTS.values()
        if any(target.may_call(prompt.operation) for target in targets)
    ]
    return types.ListPromptsResult(prompts=found)


def _declare(prompt: _Prompt, targets: Sequence[Target]) -> types.Prompt:
    if len(targets) < 2:
        return prompt.declaration
    arguments = [*(prompt.declaration.arguments or ()), PIPELINE]
    return prompt.declaration.model_copy(update={"arguments": arguments})


async def get_prompt(
    targets: Sequence[Target], params: types.GetPromptRequestParams
) -> types.GetPromptResult:
    """Return the message of a prompt.

    Raises MCPError: the prompt is unknown, or an argument is missing or too long. Raises ToolError.
    """
    given = params.arguments or {}
    prompt = _PROMPTS.get(params.name)
    allowed = [target for target in targets if prompt and target.may_call(prompt.operation)]
    if prompt is None or not allowed:
        raise _refusal(f"no prompt has the name {params.name[:100]!r}; prompts/list lists them")
    _check_arguments(_declare(prompt, allowed), given)
    text = await prompt.write(_choose(allowed, given), given)
    content = types.TextContent(type="text", text=text)
    return types.GetPromptResult(
        description=prompt.declaration.description,
        messages=[types.PromptMessage(role="user", content=content)],
    )


def _check_arguments(prompt: types.Prompt, given: Mapping[str, str]) -> None:
    known = {argument.name: argument for argument in prompt.arguments or ()}
    for name, value in given.items():
        if name not in (*known, PIPELINE.name):
            raise _refusal(f"{prompt.name} has no argument {name[:100]!r}; it has {list(known)}")
        if len(value) > MAX_ARGUMENT:
            raise _refusal(
                f"{name} has {len(value)} characters; at most {MAX_ARGUMENT} are allowed"
            )
    for name, argument in known.items():
        if argument.required and not given.get(name, "").strip():
            raise _refusal(f"set the argument {name!r} of {prompt.name}: {argument.description}")


def _choose(targets: Sequence[Target], given: Mapping[str, str]) -> Target:
    wanted = given.get(PIPELINE.name)
    for target in targets:
        if wanted in (None, target.uid):
            return target
    raise _refusal(f"the key sees no pipeline {(wanted or '')[:100]!r}")


def _refusal(text: str) -> MCPError:
    return MCPError(types.INVALID_PARAMS, text)


async def _recall(target: Target, given: Mapping[str, str]) -> str:
    question = given["question"]
    asked = {"query": question, "token_budget": TOKEN_BUDGET}
    found = await target.call("knowledge.context", asked)
    return (
        f"{found['text'] or NOTHING_FOUND}\n\n"
        "Answer the question below. Use what the memory contains if it helps, and search with "
        "memory_recall or memory_search if more is needed. Say so if the memory does not contain "
        f"the answer.\n\nQuestion: {question}"
    )


async def _remember(target: Target, given: Mapping[str, str]) -> str:
    memory = given.get("memory", "").strip()
    where = f" with the argument memory set to {memory!r}" if memory else ""
    return (
        f"Store the text below with memory_remember{where}. Call it once for each separate fact, "
        "and phrase each fact so that it is clear without this conversation. Then report which "
        f"facts were new, which were known, and which replaced an old one.\n\nText: {given['text']}"
    )


_RECALL = types.Prompt(
    name="recall_before_answering",
    title="Recall before answering",
    description="Answers a question with what the memory contains about it.",
    arguments=[
        types.PromptArgument(name="question", description="The question to answer.", required=True)
    ],
)
_REMEMBER = types.Prompt(
    name="remember_this",
    title="Remember this",
    description="Stores the facts of a text.",
    arguments=[
        types.PromptArgument(name="text", description="The text to remember.", required=True),
        types.PromptArgument(
            name="memory", description="The name of the memory; notes by default.", required=False
        ),
    ],
)
_PROMPTS = {
    _RECALL.name: _Prompt(_RECALL, "knowledge.context", _recall),
    _REMEMBER.name: _Prompt(_REMEMBER, "entries.create", _remember),
}
