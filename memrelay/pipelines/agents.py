"""The checks of one agent: its class, its block with the arguments, and its names."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from pydantic import ConfigDict, ValidationError

from memrelay.blocks.contract import Agent, Block, BlockArgs
from memrelay.blocks.errors import BrokenBlock
from memrelay.blocks.patterns import MAX_STEPS, MAX_STEPS_TOGETHER
from memrelay.blocks.registry import find_block, loadable_blocks
from memrelay.blocks.templates import MAX_TOGETHER, BadTemplate, JsonTemplate
from memrelay.memory.engine.memory_id import built_in_store
from memrelay.pipelines.bundle import AI_CLASS, CLASSES, SECRET, AgentSpec
from memrelay.pipelines.checked import CheckedAgent
from memrelay.pipelines.expressions import Expression, compile_expression
from memrelay.pipelines.flow import Flow
from memrelay.pipelines.json_text import bounded_object, parse_object
from memrelay.pipelines.message_checks import MessageCheck, check_schema
from memrelay.pipelines.report import JsonPath, Report, quoted
from memrelay.pipelines.rules import find_location, report_validation_error
from memrelay.pipelines.webhook_checks import check_sender


class _AnyArgs(BlockArgs):
    model_config = ConfigDict(extra="ignore")


ANCHORED = re.compile(r"(?:\(\?[a-z]+\))?(?:\^|\\A)")
TEMPLATES = ("output_template", "template")
NO_BLOCK = Block("wf_agent", _AnyArgs, None)  # for an agent that calls no block


def check_agent(spec: AgentSpec, path: JsonPath, uid: str, report: Report) -> CheckedAgent | None:
    """Return the agent, or None after reporting its faults."""
    _check_publishing(spec, path, report)
    _check_secrets(spec, path, report)
    sender = check_sender(spec, path, report)
    block = _find_block(spec, path, report)
    args = _parse_args(spec, block, path, report)
    if block is None or args is None:
        return None
    args = _use_built_in_store(args, path, uid, report)
    _check_store(spec, args, path, uid, report)
    if sender is None or not sender.text:
        _check_pattern(spec, args, path, report)
    calls = block.handle is not None and spec.wf_call_webhook is not False
    answer = spec.wf_webhook_answer
    _check_timer(spec, args, path, report, calls=calls)
    _check_flow(spec, args, path, report, calls=calls)
    return CheckedAgent(
        agent=_make_agent(spec, uid),
        rec_swarm=spec.agent_rec_swarm,
        send_swarm=spec.agent_send_swarm,
        accepts=spec.accepts,
        block=block,
        args=args,
        calls=calls,
        token=spec.wf_webhook_token,
        secrets=spec.secrets,
        interval_ms=round(1000 * spec.wf_interval_secs),
        cron=spec.wf_cron,
        catches_up=spec.wf_catch_up,
        sender=sender,
        verify=spec.wf_webhook_verify,
        networks=spec.wf_webhook_networks,
        answer_wait_s=answer.wait_s if answer is not None else 0.0,
        answer_template=_compile_answer(spec, path, report),
        text=_compile(spec.wf_webhook_text),
        each=_compile(spec.wf_webhook_each),
        webhook_bytes=spec.wf_webhook_bytes,
        message_check=_check_schema(spec, path, report, calls=calls),
        flow=Flow.compile(spec.wf_flow) if spec.wf_flow is not None else None,
        receipts=block.name == AI_BLOCK if spec.receipts is None else spec.receipts,
    )


def _check_schema(
    spec: AgentSpec, path: JsonPath, report: Report, *, calls: bool
) -> MessageCheck | None:
    """Return the schema of an agent. Warn if it has no effect, or refuses all calls of a timer."""
    check = check_schema(spec, path, report)
    if check is not None and not calls:
        rule = "the agent calls no block, so the schema has no effect"
        report.warn((*path, "schema"), rule, "set it on the swarm")
    elif check is not None and spec.wf_interval_secs and check.schema.find_fault(""):
        rule = "a timer's text is empty, and the schema does not accept it"
        report.warn((*path, "wf_interval_secs"), rule, "set 0, or another schema")
    return check


def _compile(expression: str) -> Expression | None:
    return compile_expression(expression) if expression else None


def _compile_answer(spec: AgentSpec, path: JsonPath, report: Report) -> JsonTemplate | None:
    """Return the template of the answer to a webhook, None without one or after a fault."""
    answer, at = spec.wf_webhook_answer, (*path, "wf_webhook_answer", "template")
    if answer is None or not answer.template:
        return None
    if not fits_with_other_templates(answer.template, at, report):
        return None
    try:
        return JsonTemplate(answer.template)
    except BadTemplate as error:
        report.error(at, str(error).removeprefix("template: "))
        return None


def _check_pattern(spec: AgentSpec, args: BlockArgs, path: JsonPath, report: Report) -> None:
    """Warn if webhooks never match a pattern, since their text is the whole body."""
    opening = spec.wf_webhook_token or spec.secrets or spec.wf_webhook_sender
    gets_webhooks = bool(opening) and not spec.wf_webhook_text
    pattern = args.selector.pattern.source if args.selector is not None else ""
    if gets_webhooks and ANCHORED.match(pattern):
        rule = f"the pattern {quoted(pattern)} begins at the start of the text, and the text of a \
JSON webhook is the whole body"
        remedy = 'set "wf_webhook_text": "text" to match its field `text`'
        report.warn((*_args_path(path), "pattern"), rule, remedy)


def _parse_args(
    spec: AgentSpec, block: Block | None, path: JsonPath, report: Report
) -> BlockArgs | None:
    """Return the arguments of an agent's block, or None after reporting faults."""
    if spec.agent_class == AI_CLASS:
        return None if block is None else read_args(block, spec.ai_args, path, report)
    values = parse_args(spec.wf_webhook_args, _args_path(path), report)
    if block is None or values is None:
        return None
    if report.pattern_steps > MAX_STEPS_TOGETHER:
        # This was reported. The other patterns are not compiled.
        return None
    args = read_args(block, values, _args_path(path), report)
    _count_pattern_steps(args, values, path, report)
    return args


def _count_pattern_steps(
    args: BlockArgs | None, values: dict[str, Any], path: JsonPath, report: Report
) -> None:
    """Add the size of an agent's pattern, and report patterns that are too large together."""
    if args is None:
        # A refused pattern may have taken as long as the largest one.
        report.pattern_steps += MAX_STEPS if "pattern" in values else 0
    elif args.selector is not None:
        report.pattern_steps += args.selector.pattern.steps
    if report.pattern_steps > MAX_STEPS_TOGETHER:
        report.error(
            (*_args_path(path), "pattern"),
            f"the patterns of a bundle have at most {MAX_STEPS_TOGETHER} steps together, and this "
            "one exceeds that; the agents after it were not checked",
            "use smaller patterns: + and * cost less than counted repetitions",
        )


def parse_args(
    given: str | dict[str, Any], path: JsonPath, report: Report
) -> dict[str, Any] | None:
    """Return `wf_webhook_args` as an object, or None after reporting a fault."""
    if isinstance(given, dict):
        return bounded_object(given, path, report)
    return parse_object(given, path, report) if given.strip() else {}


def read_args(
    block: Block, given: dict[str, Any], path: JsonPath, report: Report
) -> BlockArgs | None:
    """Return the arguments as the block's model, or None after reporting faults.

    null is the same as absent.
    """
    values = _known_args(block, given, path, report)
    templates = [(key, values.get(key)) for key in TEMPLATES]
    templates += [(key, [values.get(key)]) for key in block.args.template_arguments]
    for key, template in templates:
        if not fits_with_other_templates(template, (*path, key), report):
            return None
    args, invalid = _validated(block, values, path, report)
    if invalid:
        # The model's own validators run only if all keys are valid, so validate once more.
        valid = {key: value for key, value in values.items() if key not in invalid}
        _validated(block, valid, path, report)
    for warning in args.warnings() if args is not None else ():
        report.warn(path, warning)
    return args


def _make_agent(spec: AgentSpec, uid: str) -> Agent:
    name = spec.published_name
    username = spec.wf_username or name
    return Agent(
        uid,
        spec.agent_alias,
        name,
        username,
        spec.publishes,
        swarm=spec.agent_rec_swarm,
        timezone=spec.wf_timezone,
    )


def _known_args(
    block: Block, given: dict[str, Any], path: JsonPath, report: Report
) -> dict[str, Any]:
    """Return the arguments that the block has; report others unless the block accepts any."""
    known = {field.alias or name for name, field in block.args.model_fields.items()}
    values = {}
    for key, value in given.items():
        if key in known and value is not None:
            values[key] = value
        elif key not in known and block.args.model_config.get("extra") == "forbid":
            rule = f"the block {block.name} has no argument {quoted(key)}"
            report.unknown((*path, key), rule, key, known)
    return values


def fits_with_other_templates(template: object, path: JsonPath, report: Report) -> bool:
    """Return whether all templates of the bundle together are short enough to compile."""
    sources = {template} if isinstance(template, str) else {*_list_texts(template)}
    report.templates |= sources
    if not sources or sum(map(len, report.templates)) <= MAX_TOGETHER:
        return True
    report.error(
        path,
        f"the templates of a bundle have at most {MAX_TOGETHER} characters together",
    )
    return False


def _list_texts(value: object) -> Iterator[str]:
    """Yield the texts with tokens in a JSON value."""
    if isinstance(value, str) and "{" in value:
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _list_texts(inner)


def _validated(
    block: Block, values: dict[str, Any], path: JsonPath, report: Report
) -> tuple[BlockArgs | None, frozenset[str]]:
    """Return (model, invalid keys). The model is None if there is an invalid key."""
    try:
        return block.args.model_validate(values), frozenset()
    except ValidationError as error:
        report_validation_error(error, values, path, report)
        locations = [find_location(detail) for detail in error.errors(include_url=False)]
        return None, frozenset(str(location[0]) for location in locations if location)
    except (RecursionError, SyntaxError):  # a template parser, after thousands of brackets
        report.error(path, "nested too deeply")
        return None, frozenset()


def _args_path(path: JsonPath) -> JsonPath:
    return (*path, "wf_webhook_args")


def _check_secrets(spec: AgentSpec, path: JsonPath, report: Report) -> None:
    references = (
        ("wf_webhook_token", "token", (spec.wf_webhook_token,)),
        ("wf_webhook_secret", "secret", spec.secrets),
        ("wf_webhook_verify", "token", (spec.wf_webhook_verify,)),
    )
    for key, kind, given in references:
        if not all(SECRET.fullmatch(reference) for reference in given if reference):
            rule = f"a bundle must not contain a {kind}, only its place"
            report.error((*path, key), rule, "write env:NAME or file:NAME")


def _check_publishing(spec: AgentSpec, path: JsonPath, report: Report) -> None:
    if spec.publishes and not spec.published_name:
        report.error(
            (*path, "agent_name"),
            "an agent that publishes needs a name",
            "set wf_agent_name or agent_name",
        )
    if spec.wf_publish_results and not spec.agent_send_swarm and spec.agent_class != "viewer_agent":
        rule = "wf_publish_results is true, but there is no swarm to publish to"
        report.warn((*path, "agent_send_swarm"), rule, "set agent_send_swarm")


def _check_timer(
    spec: AgentSpec, args: BlockArgs, path: JsonPath, report: Report, *, calls: bool
) -> None:
    """Report two timers, and warn about a timer without effect: its text is empty."""
    key, selector = "wf_cron" if spec.wf_cron else "wf_interval_secs", args.selector
    at, remedy = (*path, key), "remove it" if spec.wf_cron else "set 0"
    if spec.wf_cron and spec.wf_interval_secs:
        report.error(at, "an agent has one timer", "remove wf_cron or wf_interval_secs")
    if spec.wf_catch_up and not spec.wf_cron:
        rule = "without wf_cron there is no slot to catch up"
        report.warn((*path, "wf_catch_up"), rule, "set wf_cron, or remove wf_catch_up")
    if not spec.wf_interval_secs and not spec.wf_cron:
        return
    if not calls:
        report.warn(at, "the agent calls no block, so the timer has no effect", remedy)
    elif selector is not None and (selector.pattern.capture("", 0) is None) != selector.invert:
        rule = "a timer's text is empty, and the block's pattern does not accept it"
        report.warn(at, rule, f"{remedy}, or another pattern")


def _check_flow(
    spec: AgentSpec, args: BlockArgs, path: JsonPath, report: Report, *, calls: bool
) -> None:
    """Warn about `wf_flow` without a block, and report a batch for a block with a pattern."""
    at = (*path, "wf_flow")
    if spec.wf_flow is None:
        return
    if not calls:
        report.warn(at, "the agent calls no block, so wf_flow has no effect", "remove it")
    elif spec.wf_flow.batch is not None and args.selector is not None:
        rule = "a batch is a JSON list of texts, and the block's pattern applies to one text"
        report.error((*at, "batch"), rule, "select the texts with another agent before this one")


def _find_block(spec: AgentSpec, path: JsonPath, report: Report) -> Block | None:
    """Return the agent's block, or None after reporting a fault.

    A chat or a viewer has the block of its class, and an ai_agent the block `agent`.
    """
    at = (*path, "agent_class")
    if spec.agent_class in ("chat_agent", "viewer_agent"):
        return find_block(spec.agent_class)
    if spec.agent_class == "wf_agent":
        return _named_block(spec, (*path, "wf_diagram_webhook"), report)
    if spec.agent_class == AI_CLASS:
        return ai_block()
    if spec.agent_class:
        rule = f"unknown agent class {quoted(spec.agent_class)}"
        report.unknown(at, rule, spec.agent_class, CLASSES)
    else:
        report.error(at, "an agent needs a class", f"set one of {', '.join(CLASSES)}")
    return None


def _named_block(spec: AgentSpec, at: JsonPath, report: Report) -> Block | None:
    name = spec.wf_diagram_webhook
    try:
        block = find_block(name)
    except BrokenBlock as broken:
        rule = f"the block {quoted(name)} cannot be loaded: {broken}"
        report.error(at, rule, broken.remedy)
        return None
    if block is not None and block.handle is not None:
        return block
    if name:
        callable_blocks = [
            known for known, block in loadable_blocks().items() if block.handle is not None
        ]
        report.unknown(at, f"there is no block {quoted(name)}", name, callable_blocks)
    elif spec.wf_call_webhook is False:
        return NO_BLOCK
    else:
        report.error(at, "a wf_agent needs a block", "name one, or set wf_call_webhook to false")
    return None


def _use_built_in_store(args: BlockArgs, path: JsonPath, uid: str, report: Report) -> BlockArgs:
    """Return the arguments with a built-in store, if it is the block's default or only store."""
    if not args.only_store:
        has_default = bool(args.default_store) and not args.store
        store = built_in_store(uid, args.default_store)
        return args.model_copy(update={"memory_id": store}) if has_default else args
    store = built_in_store(uid, args.only_store)
    if args.store not in ("", store):
        rule = f"the block works only on {quoted(store)}, not on {quoted(args.store)}"
        report.error((*_args_path(path), "memory_id"), rule, "leave memory_id out")
    return args.model_copy(update={"memory_id": store})


def _check_store(
    spec: AgentSpec, args: BlockArgs, path: JsonPath, uid: str, report: Report
) -> None:
    if not args.store:
        return
    if not spec.wf_publish_results and not spec.publishes:
        rule = "the block runs, but its result is not published"
        report.warn((*path, "wf_publish_results"), rule, "set wf_publish_results to true")
    if not args.store.startswith(f"instances/{uid}/"):
        rule = f"every pipeline that names the store {quoted(args.store)} shares it"
        remedy = "begin it with instances/${pipeline_uid}/ for a private store"
        report.warn((*_args_path(path), "memory_id"), rule, remedy)


# An agent of the class ai_agent calls this block, with keys `ai_*` as arguments.
AI_BLOCK = "agent"
# Keys with another name than their argument.
KEYS = {"conversation_memory": "ai_use_context"}


def make_bundle_key(argument: str) -> str:
    return KEYS.get(argument, f"ai_{argument}")


def ai_block() -> Block:
    """Return the block with arguments that have the names of the keys."""
    block = find_block(AI_BLOCK)
    assert block is not None  # it is built in
    return replace(block, args=_with_keys(block.args))


@cache
def _with_keys(args: type[BlockArgs]) -> type[BlockArgs]:
    class AiAgentArgs(args):  # type: ignore[valid-type, misc]
        __doc__ = args.__doc__
        model_config = ConfigDict(alias_generator=make_bundle_key)

    return AiAgentArgs
