"""`memrelay acl PIPELINE`: confine a Redis client to one pipeline."""

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
    """Print the ACL line that confines a client to the keys and channels of one pipeline.

    Replace PASSWORD in it.
    """

    async def command(settings: Settings) -> None:
        interface = await look_up(settings, pipeline)
        public = [swarm for swarm in interface.swarms if interface.swarm_owner(swarm) == PUBLIC]
        user, rules = f"memrelay-{interface.uid}", [*client_rules(interface.uid, public), PASSWORD]
        if as_json:
            print_json({"user": user, "rules": rules})
            return
        print_line(" ".join(["ACL SETUSER", user, *rules]))
        if sys.stdout.isatty():
            note(
                "replace PASSWORD, run the line as an administrator of the server, and save it "
                "with ACL SAVE"
            )

    run(command)
