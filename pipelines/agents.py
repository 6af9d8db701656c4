"""One agent's checks: its class, its block with the arguments, and what it publishes."""

from typing import Any

from pydantic import ConfigDict, ValidationError

from memrelay.blocks.contract import Agent, Block, BlockArgs
from memrelay.blocks.errors import BrokenBlock
from memrelay.blocks.registry import find_block, sound_blocks
from memrelay.blocks.templates import MAX_TOGETHER
from memrelay.pipelines.bundle import CLASSES, SECRET, AgentSpec
from memrelay.pipelines.checked import CheckedAgent
from memrelay.pipelines.json_text import bounded_object, parse_object
from memrelay.pipelines.report import Place, Report, quoted
from memrelay.pipelines.shape import steps_to, tell

# `wf_webhook_args`: parsed, and checked by the model of the block that they are for.


def parse_args(given: str | dict[str, Any], place: Place, report: Report) -> dict[str, Any] | None:
    """The arguments as an object, {} where nothing is given; None after telling what is wrong."""
    if isinstance(given, dict):
        return bounded_object(given, place, report)
    return parse_object(given, place, report) if given.strip() else {}


def read_args(
    block: Block, given: dict[str, Any], place: Place, report: Report
) -> BlockArgs | None:
    """The arguments as the block's model; None after telling what is wrong. null is the same as
    absent."""
    values = _known(block, given, place, report)
    if not _fits_with_others(values.get("output_template"), place, report):
        return None
    args, wrong = _validated(block, values, place, report)
    if wrong:  # once more without them: a model looks at the whole only where its keys are right
        _validated(
            block, {key: held for key, held in values.items() if key not in wrong}, place, report
        )
    for warning in args.warnings() if args is not None else ():
        report.warn(place, warning)
    return args


def _known(block: Block, given: dict[str, Any], place: Place, report: Report) -> dict[str, Any]:
    """The arguments that the block has, after telling of others where it minds."""
    known, values = block.args.model_fields, {}
    for key, held in given.items():
        if key in known and held is not None:
            values[key] = held
        elif key not in known and block.args.model_config.get("extra") == "forbid":
            report.unknown(
                (*place, key), f"the block {block.name} has no argument {quoted(key)}", key, known
            )
    return values


def _fits_with_others(template: object, place: Place, report: Report) -> bool:
    """Whether the templates of the bundle are short enough together: looking at one takes time, and
    there may be many."""
    if not isinstance(template, str):
        return True
    report.templates.add(template)
    if sum(map(len, report.templates)) <= MAX_TOGETHER:
        return True
    report.error(
        (*place, "output_template"),
        f"the templates of a bundle have at most {MAX_TOGETHER} characters together",
    )
    return False


def _validated(
    block: Block, values: dict[str, Any], place: Place, report: Report
) -> tuple[BlockArgs | None, frozenset[str]]:
    """The model, or None and the keys that are wrong."""
    try:
        return block.args.model_validate(values), frozenset()
    except ValidationError as error:
        tell(error, values, place, report)
        return None, frozenset(
            str(steps[0]) for told in error.errors(include_url=False) if (steps := steps_to(told))
        )
    except (
        RecursionError,
        SyntaxError,
    ):  # parsers of templates give up like this on thousands of brackets
        report.error(place, "nested too deeply")
        return None, frozenset()


class _AnyArgs(BlockArgs):
    model_config = ConfigDict(extra="ignore")


NO_BLOCK = Block("wf_agent", _AnyArgs, None)  # of an agent that calls none


def check_agent(spec: AgentSpec, place: Place, uid: str, report: Report) -> CheckedAgent | None:
    """The agent; None after telling why it cannot work."""
    _check_publishing(spec, place, report)
    _check_secrets(spec, place, report)
    block, values = (
        _block_of(spec, place, report),
        parse_args(spec.wf_webhook_args, _args(place), report),
    )
    args = (
        read_args(block, values, _args(place), report)
        if block is not None and values is not None
        else None
    )
    if block is None or args is None:
        return None
    _check_store(spec, args, place, uid, report)
    calls = block.handle is not None and spec.wf_call_webhook is not False
    _check_timer(spec, args, calls, place, report)
    name = spec.published_name
    return CheckedAgent(
        agent=Agent(
            uid,
            spec.agent_alias,
            name,
            spec.wf_username or name,
            spec.publishes,
            spec.agent_rec_swarm,
        ),
        rec_swarm=spec.agent_rec_swarm,
        send_swarm=spec.agent_send_swarm,
        accepts=spec.accepts,
        block=block,
        args=args,
        calls=calls,
        token=spec.wf_webhook_token,
        secrets=spec.secrets,
        interval_ms=round(1000 * spec.wf_interval_secs),
    )


def _args(place: Place) -> Place:
    return (*place, "wf_webhook_args")


def _check_secrets(spec: AgentSpec, place: Place, report: Report) -> None:
    kept = (
        ("wf_webhook_token", "token", (spec.wf_webhook_token,)),
        ("wf_webhook_secret", "secret", spec.secrets),
    )
    for key, what, references in kept:
        if not all(SECRET.fullmatch(reference) for reference in references if reference):
            rule = f"a {what} stands in the environment or in a file, and a bundle says where"
            report.error((*place, key), rule, "write env:NAME or file:PATH")


def _check_publishing(spec: AgentSpec, place: Place, report: Report) -> None:
    if spec.publishes and not spec.published_name:
        report.error(
            (*place, "agent_name"),
            "an agent that publishes needs a name",
            "set wf_agent_name or agent_name",
        )
    if spec.wf_publish_results and not spec.agent_send_swarm and spec.agent_class != "viewer_agent":
        rule = "wf_publish_results is true, and there is no swarm to publish to"
        report.warn((*place, "agent_send_swarm"), rule, "set agent_send_swarm")


def _check_timer(
    spec: AgentSpec, args: BlockArgs, calls: bool, place: Place, report: Report
) -> None:
    """A timer says nothing, so it moves only who takes an empty text."""
    at, selector = (*place, "wf_interval_secs"), args.selector
    if not spec.wf_interval_secs:
        return
    if not calls:
        report.warn(
            at, "the agent calls no block, so there is nothing to call at an interval", "set 0"
        )
    elif selector is not None and (selector.pattern.capture("", 0) is None) != selector.invert:
        report.warn(
            at,
            "a timer's text is empty, and the block's pattern does not let it through",
            "set 0, or another pattern",
        )


def _block_of(spec: AgentSpec, place: Place, report: Report) -> Block | None:
    """A chat's or a viewer's block is its class; None after telling what is wrong."""
    at = (*place, "agent_class")
    if spec.agent_class in ("chat_agent", "viewer_agent"):
        return find_block(spec.agent_class)
    if spec.agent_class == "wf_agent":
        return _named_block(spec, (*place, "wf_diagram_webhook"), report)
    if spec.agent_class == "ai_agent":
        report.error(
            at,
            "ai_agent is not served by this version, which calls no models",
            "leave the agent out",
        )
    elif spec.agent_class:
        report.unknown(
            at, f"there is no agent class {quoted(spec.agent_class)}", spec.agent_class, CLASSES
        )
    else:
        report.error(at, "an agent needs a class", f"set one of {', '.join(CLASSES)}")
    return None


def _named_block(spec: AgentSpec, at: Place, report: Report) -> Block | None:
    name = spec.wf_diagram_webhook
    try:
        block = find_block(name)
    except BrokenBlock as error:
        report.error(at, f"the block {quoted(name)} cannot be loaded: {error}", error.remedy)
        return None
    if block is not None and block.handle is not None:
        return block
    if name:
        callable_blocks = [
            known for known, block in sound_blocks().items() if block.handle is not None
        ]
        report.unknown(at, f"there is no block {quoted(name)}", name, callable_blocks)
    elif spec.wf_call_webhook is False:
        return NO_BLOCK
    else:
        report.error(at, "a wf_agent needs a block", "name one, or set wf_call_webhook to false")
    return None


def _check_store(spec: AgentSpec, args: BlockArgs, place: Place, uid: str, report: Report) -> None:
    if not args.store:
        return
    if not spec.wf_publish_results:
        rule = "the block runs, and its result is not said"
        report.warn((*place, "wf_publish_results"), rule, "set wf_publish_results to true")
    if not args.store.startswith(f"instances/{uid}/"):
        rule = f"the store {quoted(args.store)} is shared with every pipeline that names it"
        report.warn(
            (*_args(place), "memory_id"),
            rule,
            "begin it with instances/${pipeline_uid}/ for one of its own",
        )
