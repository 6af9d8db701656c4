"""The model of a bundle: which keys there are and what they hold (contracts/kilroy.md A2; `swarms`
is ours)."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)
from pydantic.config import JsonDict

from memrelay.blocks.contract import as_flag
from memrelay.blocks.memory_args import DEFAULT_LANGUAGE, Language
from memrelay.bus.keys import PUBLIC, SWARM, UID
from memrelay.pipelines.substitution import TOKEN

# How names are written in a bundle, as patterns for its JSON Schema. There `${pipeline_uid}` is
# not yet filled in.

_TOKEN = re.escape(TOKEN)
_ENV, _FILE = r"env:[A-Za-z_][A-Za-z0-9_]*", r"file:[^\x00-\x1f]+"
SECRET = re.compile(f"{_ENV}|{_FILE}")  # where a secret is kept


def _unfilled(pattern: str) -> str:
    """The pattern with `${pipeline_uid}` also taken wherever it takes a character."""
    return re.sub(r"\[[^]]+\]", lambda characters: f"({_TOKEN}|{characters[0]})", pattern)


_NAME = _unfilled(SWARM.pattern)
_PART = _unfilled(
    r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}"
)  # as memory.memory_id has it, in a room that this one does not know

NAME: JsonDict = {"pattern": f"^{_NAME}$"}
NAME_OR_NONE: JsonDict = {"pattern": f"^({_NAME})?$"}
PIPELINE_UID: JsonDict = {"pattern": f"^({_TOKEN}|{UID.pattern})?$", "not": {"const": PUBLIC}}
MEMORY_ID: JsonDict = {"pattern": f"^({_PART}(/{_PART}){{1,7}})?$"}  # 2 to 8 parts
KEPT_AT: JsonDict = {"pattern": f"^({_unfilled(_ENV)}|{_FILE})?$"}
FLAG_TEXT = "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"

_NOT = [False, "false", "False", "FALSE"]

# A wf_agent that calls names its block.
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


# `agent_from`: whose messages an agent takes (contracts/kilroy.md A2; lists are ours).


def normalised(agent_from: str | Sequence[str]) -> tuple[str, ...]:
    """The names as they are kept: () for everybody, which is what "", "*" and an empty list
    mean."""
    names = (agent_from,) if isinstance(agent_from, str) else tuple(agent_from)
    return () if "" in names or "*" in names else names


def accepts(names: tuple[str, ...], sender: str) -> bool:
    """Is what `sender` says taken? A list of `!name` alone takes all but these; plain names take
    just themselves."""
    if not names or "*" in names:
        return True
    if all(name.startswith("!") for name in names):
        return "!" + sender not in names
    return sender in names and not sender.startswith("!")


LONGEST_INTERVAL_S = 31_622_400  # a leap year
INTERVAL_SCHEMA: JsonDict = {
    "anyOf": [
        {"const": 0},
        {"type": "number", "minimum": 1, "maximum": LONGEST_INTERVAL_S},
        {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?$"},
    ]
}
CLASSES = ("wf_agent", "chat_agent", "viewer_agent", "ai_agent")


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


def _interval(seconds: float) -> float:
    if seconds and not 1 <= seconds <= LONGEST_INTERVAL_S:
        raise ValueError(f"must be 0 for no timer, or between 1 and {LONGEST_INTERVAL_S} seconds")
    return seconds


def _args(value: object) -> object:
    if isinstance(value, str | dict):
        return value
    raise ValueError("must be an object, or a string that holds one as JSON")


FlagText = Annotated[str, Field(pattern=FLAG_TEXT)]
Flag = Annotated[bool, BeforeValidator(as_flag, json_schema_input_type=bool | FlagText)]
Names = Annotated[str | tuple[str, ...], BeforeValidator(_names)]
KeptAt = Annotated[str, Field(json_schema_extra=KEPT_AT)]
Secrets = Annotated[
    str | tuple[str, ...],
    BeforeValidator(_names, json_schema_input_type=KeptAt | tuple[KeptAt, ...]),
]
Args = Annotated[str | dict[str, Any], BeforeValidator(_args)]
Interval = Annotated[
    float, AllowInfNan(False), BeforeValidator(_number, float | str), AfterValidator(_interval)
]
Kept = Annotated[Any, Field(description="Kept, and not looked at.")]


class Part(BaseModel):
    """An object of a bundle. null is the same as absent; which unknown keys are wrong is told by
    `keys.py`."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)
    prefixes: ClassVar[tuple[str, ...]] = ()  # an unknown key that begins like this is an error

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
        """The keys in JSON."""
        return frozenset(field.alias or name for name, field in cls.model_fields.items())


class SwarmSpec(Part):
    """A swarm: what agents listen to and speak on. One that is not declared is durable and
    private."""

    model_config = ConfigDict(json_schema_extra={"required": ["name"]})

    name: str = Field("", json_schema_extra=NAME)
    kind: Literal["durable", "ephemeral"] = Field("durable", alias="class")
    """This version has durable swarms only."""
    visibility: Literal["private", "public"] = "private"
    """What is said on a public swarm reaches the agents on it of every pipeline that declares it
    public by that name."""


class StoreSpec(Part):
    """What is said of a store; one that is not declared has all by default."""

    model_config = ConfigDict(json_schema_extra={"required": ["memory_id"]})

    memory_id: str = Field("", json_schema_extra={"minLength": 1})
    """As the blocks name it, like `instances/${pipeline_uid}/memories`."""
    language: Language = DEFAULT_LANGUAGE
    """Whose stems and stop words ranked searches of it go by, where they say no other; `none` for
    neither."""


class AgentSpec(Part):
    """An agent: it listens on a swarm, calls a block for what it hears, and says the result on a
    swarm."""

    model_config = ConfigDict(json_schema_extra={"required": ["agent_class", "agent_alias"]})
    prefixes = ("agent_", "wf_", "ai_")

    agent_class: str = Field("", json_schema_extra={"enum": list(CLASSES)})
    """ai_agent is known, but not served by this version."""
    agent_alias: str = Field("", json_schema_extra=NAME)
    """What the agent is addressed by; no two of a pipeline are the same."""
    agent_name: str = ""
    """What the agent publishes under, where wf_agent_name is not set."""
    agent_desc: str = ""
    agent_rec_swarm: str = Field("", json_schema_extra=NAME_OR_NONE)
    """The swarm that the agent listens to."""
    agent_send_swarm: str = Field("", json_schema_extra=NAME_OR_NONE)
    """The swarm that the agent speaks on."""
    agent_from: Names = ""
    """Whose messages are taken: a name, `!name` for all but one, `*` or nothing for all, or a list
    of these."""
    wf_agent_name: str = ""
    """What the agent publishes under."""
    wf_username: str = ""
    """The user that its messages name; by default what it publishes under."""
    wf_diagram_webhook: str = ""
    """The block that is called for each message."""
    wf_call_webhook: Flag | None = None
    """By default true where a block is named."""
    wf_publish_results: Flag = False
    """Is the block's result said on agent_send_swarm?"""
    wf_webhook_args: Args = ""
    """The block's arguments: an object, or a string that holds one as JSON."""
    wf_webhook_token: KeptAt = ""
    """Where the token is kept that webhooks to this agent must bring: `env:NAME` or `file:PATH`."""
    wf_webhook_secret: Secrets = ""
    """Where the secrets are kept by which webhooks to this agent are signed: `env:NAME` or
    `file:PATH`, or a list of these."""
    wf_interval_secs: Interval = Field(0, json_schema_extra=INTERVAL_SCHEMA)
    """How often the block is called with an empty text, whatever is said: each so many seconds, 1
    to a year; 0 for never."""

    wf_diagram_alias: Kept = None
    agent_parent_id: Kept = None
    agent_display_order: Kept = None
    agent_is_controller: Kept = None
    agent_is_controlled: Kept = None
    agent_width: Kept = None
    agent_height: Kept = None
    agent_style: Kept = None
    ai_url: Kept = None
    ai_model: Kept = None
    ai_temperature: Kept = None
    ai_max_tokens: Kept = None
    ai_system_prompt: Kept = None
    ai_prompt_prefix: Kept = None
    ai_use_context: Kept = None

    @property
    def published_name(self) -> str:
        """What the agent publishes under; never its alias."""
        return self.wf_agent_name or self.agent_name

    @property
    def publishes(self) -> bool:
        """A chat says what its user says wherever it has a swarm to, other agents where their
        results are wanted."""
        wanted = self.agent_class == "chat_agent" or (
            self.agent_class != "viewer_agent" and self.wf_publish_results
        )
        return wanted and bool(self.agent_send_swarm)

    @property
    def secrets(self) -> tuple[str, ...]:
        """`wf_webhook_secret`, one or a list, as references."""
        given = self.wf_webhook_secret
        return tuple(name for name in ((given,) if isinstance(given, str) else given) if name)

    @property
    def accepts(self) -> tuple[str, ...]:
        """`agent_from`, as `pipelines.senders` reads it."""
        return normalised(self.agent_from)


class Bundle(Part):
    """A pipeline: its agents, and the swarms on which they meet."""

    model_config = ConfigDict(json_schema_extra={"required": ["agents"]})
    prefixes = ("pipeline_",)

    pipeline_name: str = ""
    pipeline_desc: str = ""
    pipeline_uid: str = Field("", json_schema_extra=PIPELINE_UID)
    """Made when the pipeline is deployed, where it is absent. `${pipeline_uid}` stands for it in
    every string."""
    pipeline_id: Kept = None
    agents: tuple[AgentSpec, ...] = ()
    display_order: tuple[str, ...] = ()
    """Aliases, in the order in which they are shown."""
    swarms: tuple[SwarmSpec, ...] = ()
    stores: tuple[StoreSpec, ...] = ()
