"""The model of a bundle: which keys there are and what they hold (contracts/kilroy.md A2; `swarms`
is ours)."""

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

from blocks.contract import as_flag
from blocks.memory_args import DEFAULT_LANGUAGE, Language
from pipelines import forms
from pipelines.senders import normalised

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


FlagText = Annotated[str, Field(pattern=forms.FLAG_TEXT)]
Flag = Annotated[bool, BeforeValidator(as_flag, json_schema_input_type=bool | FlagText)]
Names = Annotated[str | tuple[str, ...], BeforeValidator(_names)]
KeptAt = Annotated[str, Field(json_schema_extra=forms.KEPT_AT)]
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

    name: str = Field("", json_schema_extra=forms.NAME)
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
    agent_alias: str = Field("", json_schema_extra=forms.NAME)
    """What the agent is addressed by; no two of a pipeline are the same."""
    agent_name: str = ""
    """What the agent publishes under, where wf_agent_name is not set."""
    agent_desc: str = ""
    agent_rec_swarm: str = Field("", json_schema_extra=forms.NAME_OR_NONE)
    """The swarm that the agent listens to."""
    agent_send_swarm: str = Field("", json_schema_extra=forms.NAME_OR_NONE)
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
    pipeline_uid: str = Field("", json_schema_extra=forms.PIPELINE_UID)
    """Made when the pipeline is deployed, where it is absent. `${pipeline_uid}` stands for it in
    every string."""
    pipeline_id: Kept = None
    agents: tuple[AgentSpec, ...] = ()
    display_order: tuple[str, ...] = ()
    """Aliases, in the order in which they are shown."""
    swarms: tuple[SwarmSpec, ...] = ()
    stores: tuple[StoreSpec, ...] = ()
