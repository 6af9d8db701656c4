"""The inputs that a pipeline with `inputs_days` keeps, to run them again."""

from memrelay.memory.engine.models import Model

MODEL = Model(
    name="inputs",
    faces=("cli.commands.replay", "web.api.input_replay", "web.api.replays"),
    nouns={"inputs": ("listing",)},
    erase="table:InputErasure",
)
