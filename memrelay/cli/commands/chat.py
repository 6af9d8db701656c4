"""`memrelay chat PIPELINE`: a prompt that sends its lines to a swarm.

Without a terminal, it sends the lines of stdin.
"""

import sys
from contextlib import AsyncExitStack

import typer

from memrelay.bus.request import Requester
from memrelay.bus.streams.follow import Follower
from memrelay.cli.chat.conversation import (
    ChatOptions,
    Conversation,
    OtherMessages,
    ShownRecords,
    script_lines,
    unless_interrupted,
)
from memrelay.cli.chat.prompt import QUIT, Prompt, print_dimly
from memrelay.cli.composition import bus_address, run
from memrelay.cli.logs import configure_logging
from memrelay.cli.options import Json, Pipeline, Swarm, User, Wait
from memrelay.cli.pipeline import PipelineInterface, look_up
from memrelay.cli.settings import Settings, may_color

# In the memory root.
HISTORY = "chat_history"


def chat(
    pipeline: Pipeline,
    *,
    swarm: Swarm = "chat",
    user: User = "User",
    wait: Wait = 30.0,
    as_json: Json = False,
) -> None:
    """Chat with a pipeline at a prompt. Ctrl-D or /quit ends it.

    Without a terminal, send the lines of stdin.
    """

    async def command(settings: Settings) -> None:
        # Only errors, because the prompt shares the terminal with the log.
        configure_logging("error", settings.log.format, may_color=may_color())
        interface = await look_up(settings, pipeline)
        interface.check_swarm(swarm)
        max_bytes = settings.bus.max_message_bytes
        options = ChatOptions(
            interface.uid, swarm, user, wait, max_bytes, as_json, interface.commands
        )
        async with Requester(bus_address(settings)) as requester:
            if sys.stdin.isatty() and sys.stdout.isatty():
                await _run_prompt(settings, requester, interface, options)
            else:
                await _run_script(requester, options)

    run(command)


async def _run_prompt(
    settings: Settings, requester: Requester, pipeline: PipelineInterface, options: ChatOptions
) -> None:
    shown, others = ShownRecords(), OtherMessages(pipeline.blocks, print_dimly)
    conversation = Conversation(requester, options, shown, others)
    prompt = Prompt(pipeline.name, pipeline.commands, shown, settings.memory.root / HISTORY)
    async with AsyncExitStack() as stack:
        follower = await stack.enter_async_context(Follower(bus_address(settings)))
        await follower.follow(pipeline.swarm_owner(options.swarm), options.swarm, others.receive)
        print_dimly(
            f"{pipeline.name} ({pipeline.uid}), {options.swarm}: "
            f"{', '.join(pipeline.commands) or 'no commands'}. Tab completes, Ctrl-D ends."
        )
        async for text in prompt.lines():
            if text.strip():
                await unless_interrupted(conversation.send(text))


async def _run_script(requester: Requester, options: ChatOptions) -> None:
    """Send the lines of stdin. End with exit code 1 if a message failed."""
    others = OtherMessages((), lambda _: None)
    conversation = Conversation(requester, options, ShownRecords(), others)
    has_failed = False
    async for text in script_lines(options.max_bytes):
        if text.strip() == QUIT:
            break
        if text.strip() and not await conversation.send(text):
            has_failed = True
    if has_failed:
        raise typer.Exit(1)
