"""`memrelay acl PIPELINE`: confines a Redis client to one pipeline."""

import sys

from memrelay.bus.keys import PUBLIC
from memrelay.bus.permissions import client_rules
from memrelay.cli.composition import note, run
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.pipeline import look_up
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line

PASSWORD = ">PASSWORD"


def acl(pipeline: Pipeline, *, as_json: Json = False) -> None:
    """Print the server's ACL line that confines a client to one pipeline's keys and channels; put a
    password in its place."""

    async def command(settings: Settings) -> None:
        spoken = await look_up(settings, pipeline)
        public = [swarm for swarm in spoken.swarms if spoken.home_of(swarm) == PUBLIC]
        user, rules = f"memrelay-{spoken.uid}", [*client_rules(spoken.uid, public), PASSWORD]
        if as_json:
            print_json({"user": user, "rules": rules})
            return
        print_line(" ".join(["ACL SETUSER", user, *rules]))
        if sys.stdout.isatty():
            note(
                "put a password for PASSWORD, run it as an administrator of the server, and keep it with ACL SAVE"
            )

    run(command)
