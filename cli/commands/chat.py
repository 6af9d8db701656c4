"""`memrelay chat PIPELINE`: a prompt whose lines are said on a swarm; without a terminal, the lines
of stdin."""

import sys
from contextlib import AsyncExitStack

import typer

from memrelay.bus.request import Requester
from memrelay.bus.streams.follow import Follower
from memrelay.cli.chat.conversation import (
    Conversation,
    Manner,
    Overheard,
    Seen,
    script_lines,
    unless_interrupted,
)
from memrelay.cli.chat.prompt import QUIT, Prompt, print_dimly
from memrelay.cli.composition import bus_address, run
from memrelay.cli.logs import configure_logging
from memrelay.cli.options import Json, Pipeline, Swarm, User, Wait
from memrelay.cli.pipeline import Spoken, look_up
from memrelay.cli.settings import Settings, may_color

HISTORY = "chat_history"  # in the memory root


def chat(
    pipeline: Pipeline,
    *,
    swarm: Swarm = "chat",
    user: User = "User",
    wait: Wait = 30.0,
    as_json: Json = False,
) -> None:
    """Talk to a pipeline at a prompt; Ctrl-D or /quit ends it. Without a terminal the lines of
    stdin are said."""

    async def command(settings: Settings) -> None:
        configure_logging(
            "error", settings.log.format, may_color=may_color()
        )  # a prompt is no log
        spoken = await look_up(settings, pipeline)
        spoken.check_swarm(swarm)
        manner = Manner(spoken.uid, swarm, user, wait, settings.bus.max_message_bytes, as_json)
        async with Requester(bus_address(settings)) as requester:
            if sys.stdin.isatty() and sys.stdout.isatty():
                await _at_prompt(settings, requester, spoken, manner)
            else:
                await _by_script(requester, manner)

    run(command)


async def _at_prompt(
    settings: Settings, requester: Requester, spoken: Spoken, manner: Manner
) -> None:
    seen, overheard = Seen(), Overheard(spoken.blocks, print_dimly)
    conversation = Conversation(requester, manner, seen, overheard)
    prompt = Prompt(spoken.name, spoken.commands, seen, settings.memory.root / HISTORY)
    async with AsyncExitStack() as stack:
        follower = await stack.enter_async_context(Follower(bus_address(settings)))
        await follower.follow(spoken.home_of(manner.swarm), manner.swarm, overheard.hear)
        print_dimly(
            f"{spoken.name} ({spoken.uid}), {manner.swarm}: {', '.join(spoken.commands) or 'no commands'}. "
            "Tab completes, Ctrl-D ends."
        )
        async for text in prompt.lines():
            if text.strip():
                await unless_interrupted(conversation.say(text))


async def _by_script(requester: Requester, manner: Manner) -> None:
    """Exit code 1 where something that was said did not go through."""
    conversation = Conversation(requester, manner, Seen(), Overheard((), lambda _: None))
    well = True
    async for text in script_lines(manner.most_bytes):
        if text.strip() == QUIT:
            break
        if text.strip():
            well = await conversation.say(text) and well
    if not well:
        raise typer.Exit(1)
