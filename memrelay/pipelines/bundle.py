"""The model of a bundle: its keys and their values (contracts/kilroy.md A2; `swarms` is ours)."""

import re
from collections.abc import Sequence
from ipaddress import ip_network
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    AllowInfNan,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)
from pydantic.config import JsonDict

from memrelay.blocks.contract import as_flag
from memrelay.blocks.json_values import OptionalExpression
from memrelay.blocks.memory_args import DEFAULT_LANGUAGE, Language
from memrelay.blocks.templates import MAX_SOURCE
from memrelay.bus.keys import PUBLIC, SWARM, UID
from memrelay.bus.message import MAX_WEBHOOK_BYTES
from memrelay.memory.endpoint_rules import (
    Description,
    EventTypes,
    Filter,
    Format,
    Headers,
    Rate,
    Url,
    is_reference,
)
from memrelay.memory.engine.time_zones import MaybeZone
from memrelay.memory.field_descriptions import DescribedModel
from memrelay.memory.policy_rules import Policies
from memrelay.memory.view_rules import Views
from memrelay.pipelines.cron import MAX_LENGTH as MAX_CRON
from memrelay.pipelines.cron import PATTERN as CRON_PATTERN
from memrelay.pipelines.cron import check_cron
from memrelay.pipelines.flow import FlowSpec
from memrelay.pipelines.rules import OBJECT
from memrelay.pipelines.substitution import TOKEN
from memrelay.pipelines.webhook_secrets import KeyForm
from memrelay.pipelines.webhook_senders import SENDERS, SenderSpec, make_sender

# Patterns of names for the JSON Schema. A bundle still contains `${pipeline_uid}` there.
_TOKEN = re.escape(TOKEN)
_ENV, _FILE = r"env:[A-Za-z_][A-Za-z0-9_]*", r"file:[^\x00-\x1f]+"
SECRET = re.compile(f"{_ENV}|{_FILE}")  # the place of a secret


def _unfilled(pattern: str) -> str:
    """Return a pattern that also accepts `${pipeline_uid}` at the place of each character."""
    return re.sub(r"\[[^][]+\]", lambda characters: f"({_TOKEN}|{characters[0]})", pattern)


_NAME = _unfilled(SWARM.pattern)
# The same as in memory.memory_id, which this package may not import.
_PART = _unfilled(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")

ENDPOINT_NAME = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,49}"
NAME: JsonDict = {"pattern": f"^{_NAME}$"}
NAME_OR_NONE: JsonDict = {"pattern": f"^({_NAME})?$"}
PIPELINE_UID: JsonDict = {"pattern": f"^({_TOKEN}|{UID.pattern})?$", "not": {"const": PUBLIC}}
# 2 to 8 parts
MEMORY_ID: JsonDict = {"pattern": f"^({_PART}(/{_PART}){{1,7}})?$", "format": "store"}
KEPT_AT: JsonDict = {"pattern": f"^({_unfilled(_ENV)}|{_FILE})?$"}
FLAG_TEXT = "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"

_NOT = [False, "false", "False", "FALSE"]

# A wf_agent that calls a block names it.
CALLS: dict[str, Any] = {
    "if": {
        "properties": {"agent_class": {"const": "wf_agent"}},
        "required": ["agent_class"],
        "not": {"properties": {"wf_call_webhook": {"enum": _NOT}}, "required": ["wf_call_webhook"]},
    },
    "then": {
        "properties": {"wf_diagram_webhook": {"minLength": 1}},
        "required": ["wf_diagram_webhook"],
    },
}


def normalized_senders(agent_from: str | Sequence[str]) -> tuple[str, ...]:
    """Return `agent_from` as a tuple (contracts/kilroy.md A2; lists are ours).

    It is () for all senders, which "", "*" and an empty list mean.
    """
    names = (agent_from,) if isinstance(agent_from, str) else tuple(agent_from)
    return () if "" in names or "*" in names else names


def accepts(names: tuple[str, ...], sender: str) -> bool:
    """Return whether an agent with these names in `agent_from` accepts the sender.

    Names with `!` alone accept all other senders. Plain names accept only these senders.
    """
    if not names or "*" in names:
        return True
    if all(name.startswith("!") for name in names):
        return "!" + sender not in names
    return sender in names and not sender.startswith("!")


LONGEST_INTERVAL_S = 31_622_400  # a leap year
MAX_PATH = 4096  # characters
MAX_INPUTS_DAYS = 366
INTERVAL_SCHEMA: JsonDict = {
    "anyOf": [
        {"const": 0},
        {"type": "number", "minimum": 1, "maximum": LONGEST_INTERVAL_S},
        {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?$"},
    ]
}
AI_CLASS = "ai_agent"
CLASSES = ("wf_agent", "chat_agent", "viewer_agent", AI_CLASS)


def _names(value: object) -> object:
    if isinstance(value, str) or (
        isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
    ):
        return value
    raise ValueError("must be a name, or a list of names")


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number of seconds")
    return value


def _bytes(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number of bytes")
    return value


def _interval(seconds: float) -> float:
    if seconds and not 1 <= seconds <= LONGEST_INTERVAL_S:
        raise ValueError(f"must be 0 for no timer, or between 1 and {LONGEST_INTERVAL_S} seconds")
    return seconds


def _networks(values: tuple[str, ...]) -> tuple[str, ...]:
    """Check the networks. Raises ValueError."""
    for value in values:
        try:
            ip_network(value)
        except ValueError as error:
            raise ValueError("must be networks, such as 203.0.113.0/24") from error
    return values


def _args(value: object) -> object:
    if isinstance(value, str | dict):
        return value
    raise ValueError("must be an object, or JSON text of one")


def _list_secrets(given: str | tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in ((given,) if isinstance(given, str) else given) if name)


FlagText = Annotated[str, Field(pattern=FLAG_TEXT)]
Flag = Annotated[bool, BeforeValidator(as_flag, json_schema_input_type=bool | FlagText)]
Names = Annotated[str | tuple[str, ...], BeforeValidator(_names)]
SchemaOfText = Annotated[dict[str, Any] | None, Field(alias="schema")]
KeptAt = Annotated[str, Field(json_schema_extra=KEPT_AT)]
Secrets = Annotated[
    str | tuple[str, ...],
    BeforeValidator(_names, json_schema_input_type=KeptAt | tuple[KeptAt, ...]),
]
SenderName = Annotated[str, Field(json_schema_extra={"enum": ["", *SENDERS]})]
GivenSender = Annotated[
    Annotated[SenderName, Tag("text")] | Annotated[SenderSpec, Tag(OBJECT)],
    Discriminator(lambda given: "text" if isinstance(given, str) else OBJECT),
]
Networks = Annotated[tuple[str, ...], Field(max_length=100), AfterValidator(_networks)]
Args = Annotated[str | dict[str, Any], BeforeValidator(_args)]
_Bytes = Annotated[int, Field(ge=0, le=MAX_WEBHOOK_BYTES)]
WebhookBytes = Annotated[_Bytes, BeforeValidator(_bytes, _Bytes)]
Interval = Annotated[
    float, AllowInfNan(False), BeforeValidator(_number, float | str), AfterValidator(_interval)
]
Cron = Annotated[
    str,
    Field(max_length=MAX_CRON, json_schema_extra={"pattern": CRON_PATTERN}),
    AfterValidator(check_cron),
]
Kept = Annotated[Any, Field(description="Stored and ignored.")]
ForAgent = Annotated[
    Any, Field(description="Argument of the block `agent`, for an agent of the class ai_agent.")
]


class Part(DescribedModel):
    """An object of a bundle. null is the same as absent. `check_keys` checks unknown keys."""

    model_config = ConfigDict(frozen=True)
    prefixes: ClassVar[tuple[str, ...]] = ()  # reserved: an unknown key with one is an error

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: Any) -> Any:
        return (
            {key: held for key, held in value.items() if held is not None}
            if isinstance(value, dict)
            else value
        )

    @classmethod
    def keys(cls) -> frozenset[str]:
        return frozenset(field.alias or name for name, field in cls.model_fields.items())


class SwarmSpec(Part):
    """A swarm: a named channel of the agents. An undeclared swarm is durable and private."""

    model_config = ConfigDict(json_schema_extra={"required": ["name"]})

    name: str = Field("", json_schema_extra=NAME)
    kind: Literal["durable", "ephemeral"] = Field("durable", alias="class")
    """This version supports only durable swarms."""
    visibility: Literal["private", "public"] = "private"
    """Pipelines that declare a public swarm of the same name share its messages."""
    message_schema: SchemaOfText = None
    """JSON Schema of the texts of its messages. Another message becomes a dead letter."""
    on_mismatch: str = Field("", json_schema_extra=NAME_OR_NONE)
    """Swarm that gets the messages that break the schema, instead of the dead letters."""


class StoreSpec(Part):
    """Settings of a store. An undeclared store has the defaults."""

    model_config = ConfigDict(json_schema_extra={"required": ["memory_id"]})

    memory_id: str = Field("", json_schema_extra={"minLength": 1})
    """The memory_id of its blocks, like `instances/${pipeline_uid}/memories`."""
    language: Language = DEFAULT_LANGUAGE
    """Default language of stems and stop words in ranked searches; `none` for neither."""
    changes: Flag = False
    """Keep a feed of the changes, which changes.list reads. The built-in stores always have one."""
    vectors: Flag = False
    """Make vectors of all records, so that ranked searches find them by meaning. A memory_search
    with mode `hybrid` or `semantic` does it too."""
    policies: Policies = ()
    """Rules for the writes of the store ([trust.md](trust.md)). A
    deploy writes them into the store file."""
    views: Views = ()
    """Aggregates of the records, kept with each change ([views.md](views.md)). A deploy computes
    them."""


class DeclaredEndpoint(Part):
    """An endpoint: a URL of another service that gets a signed webhook for each change."""

    model_config = ConfigDict(json_schema_extra={"required": ["name", "url"]})

    name: str = Field("", json_schema_extra={"pattern": f"^(?!ep_){_unfilled(ENDPOINT_NAME)}$"})
    """The id of the endpoint, unique in the pipeline."""
    url: Url = ""
    """The URL: https://... or its place, `env:NAME` or `file:NAME`."""
    secret: Secrets = ""
    """Place of the secret that signs, `env:NAME` or `file:NAME`. A list of two, the new and the old
    one, makes both sign. By default, one is made; `endpoints rotate` makes another and shows it."""
    events: EventTypes = ("*",)
    """Types of events, such as `record.created`; `*` stands for any characters."""
    filter: Filter | None = None
    """Only events about records that pass this filter (docs/filters.md)."""
    headers: Headers = Field(default_factory=dict)
    """Further headers, at most 16."""
    format: Format = "standard"
    """The form of the body."""
    template: dict[str, Any] | None = None
    """The body as a JSON object whose strings are templates over `type`, `timestamp` and `data`, in
    place of a format."""
    ordered: Flag = False
    """Send the events of a store one after the other, each until it succeeds or ends."""
    rate: Rate = 0
    """The maximum number of deliveries a second; 0 for no limit."""
    description: Description = ""
    """What the endpoint is for."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the places of its secrets, () if one is made."""
        return _list_secrets(self.secret)

    @property
    def host(self) -> str:
        """Return the host of the URL, "" if the URL is a secret."""
        return "" if is_reference(self.url) else urlsplit(self.url).hostname or ""

    @property
    def references(self) -> tuple[tuple[str, str], ...]:
        """Return (key, reference) of each secret that its requests have."""
        url = (("url", self.url),) if is_reference(self.url) else ()
        return (*url, *(("secret", reference) for reference in self.secrets))


class AnswerSpec(DescribedModel):
    """The answer to a webhook with the first result of an agent that publishes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    wait_s: Annotated[float, Field(gt=0, le=60)] = 2.5
    """How long to wait for the result. After it, the sender gets its usual answer."""
    template: Annotated[str, Field(max_length=MAX_SOURCE)] = ""
    """A Jinja template of the answer over the JSON of the result, like `Saved as {{ guid }}.` A
    result that is not JSON is `{{ text }}`. By default, the answer is the text of the result."""


class AgentSpec(Part):
    """An agent: it listens on a swarm, calls a block for each message, and publishes the result."""

    model_config = ConfigDict(json_schema_extra={"required": ["agent_class", "agent_alias"]})
    prefixes = ("agent_", "wf_", "ai_")

    agent_class: str = Field("", json_schema_extra={"enum": list(CLASSES)})
    """An ai_agent calls the block `agent` with its keys `ai_*`."""
    agent_alias: str = Field("", json_schema_extra=NAME)
    """Address of the agent, unique in the pipeline."""
    agent_name: str = ""
    """Sender of its messages if wf_agent_name is not set."""
    agent_desc: str = ""
    agent_rec_swarm: str = Field("", json_schema_extra=NAME_OR_NONE)
    """Swarm on which the agent listens."""
    agent_send_swarm: str = Field("", json_schema_extra=NAME_OR_NONE)
    """Swarm on which the agent publishes."""
    agent_from: Names = ""
    """Accepted senders: a name, `!name` for all others, `*` or nothing for all, or a list."""
    wf_agent_name: str = ""
    """Sender of its messages."""
    wf_username: str = ""
    """Username in its messages; the sender by default."""
    wf_diagram_webhook: str = ""
    """Block to call for each message."""
    wf_call_webhook: Flag | None = None
    """True by default if a block is named."""
    wf_publish_results: Flag = False
    """Publish the result of the block on agent_send_swarm."""
    wf_webhook_args: Args = ""
    """Arguments of the block: an object, or JSON text of one."""
    wf_webhook_token: KeptAt = ""
    """Place of the token that webhooks to this agent need: `env:NAME` or `file:NAME`."""
    wf_webhook_secret: Secrets = ""
    """Places of the secrets that sign webhooks to this agent: `env:NAME` or `file:NAME`, or a
    list."""
    wf_webhook_sender: GivenSender = ""
    """Service that sends the webhooks: a known one, or a description. By default, requests are
    signed as in Standard Webhooks."""
    wf_webhook_verify: KeptAt = ""
    """Place of the token with which Meta verifies the URL, for the sender `meta`: `env:NAME` or
    `file:NAME`."""
    wf_webhook_networks: Networks = ()
    """Networks that may send webhooks to this agent, like `203.0.113.0/24`. Others are refused."""
    wf_webhook_answer: AnswerSpec | None = None
    """Wait for a result and answer with it, in the form that the sender shows to its users."""
    wf_webhook_text: OptionalExpression = ""
    """JMESPath expression of the text that the agent gets from the JSON of a webhook, like
    `message.text`. By default, and if it gives null, an agent gets the whole body, and a chat agent
    the field `text`."""
    wf_webhook_each: OptionalExpression = ""
    """JMESPath expression of a list in the JSON of a webhook: each element becomes a message."""
    wf_webhook_bytes: WebhookBytes = 0
    """Largest body of a webhook to this agent, in bytes; `web.webhook_bytes` by default."""
    wf_interval_secs: Interval = Field(0, json_schema_extra=INTERVAL_SCHEMA)
    """Interval of a timer that calls the block with an empty text: 1 second to a year, 0 for
    never."""
    wf_cron: Cron = ""
    """Cron expression of a timer that calls the block with an empty text, like `0 9 * * MON-FRI`:
    minute, hour, day of the month, month, day of the week, in the zone of the agent."""
    wf_catch_up: Flag = False
    """Run the last slot of wf_cron that no worker served, as soon as one can."""
    wf_timezone: MaybeZone = ""
    """Time zone of wf_cron, and of days such as `yesterday` in queries of this agent; the bundle's
    by default."""
    message_schema: SchemaOfText = None
    """JSON Schema of the texts that its block gets. Another message becomes a dead letter."""
    on_mismatch: str = Field("", json_schema_extra=NAME_OR_NONE)
    """Swarm that gets the messages that break the schema, instead of the dead letters."""
    receipts: Flag | None = None
    """Keep a receipt of what the block reads for each answer ([receipts.md](receipts.md)). True by
    default for the block `agent`."""
    wf_flow: FlowSpec | None = None
    """Call the block only for the last message of a burst, at a limited rate, or once for several
    messages."""

    wf_diagram_alias: Kept = None
    agent_parent_id: Kept = None
    agent_display_order: Kept = None
    agent_is_controller: Kept = None
    agent_is_controlled: Kept = None
    agent_width: Kept = None
    agent_height: Kept = None
    agent_style: Kept = None

    ai_memory_id: ForAgent = None
    ai_url: ForAgent = None
    ai_model: ForAgent = None
    ai_api_key: ForAgent = None
    ai_temperature: ForAgent = None
    ai_max_tokens: ForAgent = None
    ai_system_prompt: ForAgent = None
    ai_prompt_prefix: ForAgent = None
    ai_tools: ForAgent = None
    ai_use_context: ForAgent = None
    ai_record_episodes: ForAgent = None
    ai_workflow_id: ForAgent = None
    ai_context_window: ForAgent = None
    ai_compacting: ForAgent = None
    ai_compacting_trigger: ForAgent = None
    ai_compacting_keep: ForAgent = None
    ai_keep_checkpoints: ForAgent = None
    ai_max_steps: ForAgent = None
    ai_knowledge_config: ForAgent = None

    @property
    def published_name(self) -> str:
        """Return the sender of its messages, which is never its alias."""
        return self.wf_agent_name or self.agent_name

    @property
    def publishes(self) -> bool:
        """Return whether the agent publishes.

        A chat publishes its user's messages, and an ai_agent its answers. Other agents need
        `wf_publish_results`.
        """
        wanted = self.agent_class in ("chat_agent", AI_CLASS) or (
            self.agent_class != "viewer_agent" and self.wf_publish_results
        )
        return wanted and bool(self.agent_send_swarm)

    @property
    def ai_args(self) -> dict[str, Any]:
        """Return the keys of an ai_agent that are set."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return {
            name: value
            for name, value in fields.items()
            if name.startswith("ai_") and value is not None
        }

    @property
    def secrets(self) -> tuple[str, ...]:
        return _list_secrets(self.wf_webhook_secret)

    @property
    def key_form(self) -> KeyForm:
        """Return how its secrets are written. An unknown sender has the default."""
        try:
            return make_sender(self.wf_webhook_sender or "standard").key_form
        except LookupError:
            return "standard"

    @property
    def accepts(self) -> tuple[str, ...]:
        """Return `agent_from` as a tuple for `accepts`."""
        return normalized_senders(self.agent_from)


class Bundle(Part):
    """A pipeline: its agents and their swarms."""

    model_config = ConfigDict(json_schema_extra={"required": ["agents"]})
    prefixes = ("pipeline_",)

    pipeline_name: str = ""
    pipeline_desc: str = ""
    pipeline_uid: str = Field("", json_schema_extra=PIPELINE_UID)
    """Generated at deploy if it is absent. `${pipeline_uid}` in a string is replaced by it."""
    pipeline_id: Kept = None
    agents: tuple[AgentSpec, ...] = ()
    display_order: tuple[str, ...] = ()
    """Aliases in display order."""
    swarms: tuple[SwarmSpec, ...] = ()
    stores: tuple[StoreSpec, ...] = ()
    endpoints: tuple[DeclaredEndpoint, ...] = ()
    """URLs of other services that get the changes of the pipeline's stores as signed webhooks."""
    timezone: MaybeZone = ""
    """Time zone of days such as `yesterday` in queries, like `Europe/Berlin`. A deploy sets the
    default: `memory.timezone` of the settings, else UTC. Stored times are UTC."""
    inputs_days: float = Field(0, ge=0, le=MAX_INPUTS_DAYS, strict=True)
    """Days for which the stores keep each input of the pipeline, so that `memrelay replay` can run
    it again. 0 keeps none."""
    golden_questions: str = Field("", max_length=MAX_PATH)
    """A file of golden questions, relative to that of the bundle, for `memrelay deploy
    --require-tests`."""
    receipts_days: float = Field(30, gt=0, le=MAX_INPUTS_DAYS, strict=True)
    """Days for which the stores keep each receipt."""
    receipts_question: Literal["text", "digest"] = "text"
    """What receipts of agents and calls keep of the question. A digest cannot be verified."""
    review_days: float = Field(30, gt=0, le=MAX_INPUTS_DAYS, strict=True)
    """Days after which a write that a policy holds for review ends without a decision."""
