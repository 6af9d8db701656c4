"""github_event: turn an event of GitHub into one sentence."""

import json

from memrelay import BlockArgs, Call, Message, block


class GithubEventArgs(BlockArgs):
    """This block has no arguments."""


@block("github_event", GithubEventArgs)
def github_event(call: Call, args: GithubEventArgs) -> Message | None:
    """Return who did what, or nothing for events that are not about an issue or a pull request."""
    try:
        event = json.loads(call.text)
        subject = event.get("issue") or event["pull_request"]
        kind = "issue" if "issue" in event else "pull request"
        return call.reply(
            f"{event['sender']['login']} {event['action']} {kind} {subject['number']} of "
            f"{event['repository']['full_name']}: {subject['title']}"
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
