"""webhook_send: post a message as a webhook, signed as Standard Webhooks."""

from memrelay.blocks.contract import Call, DeferredCall, SecretReference
from memrelay.blocks.json_values import read_json
from memrelay.blocks.registry import block
from memrelay.blocks.request_args import EXECUTOR, RequestArgs, make_request, take_answer
from memrelay.bus.message import JSON, Message
from memrelay.pipelines.expressions import to_text


class WebhookSendArgs(RequestArgs):
    """The receiver, and the secret that signs."""

    secret: SecretReference = ""
    """Place of the secret `whsec_...`, `env:NAME` or `file:NAME`. With it, the headers
    `webhook-id`, `webhook-timestamp` and `webhook-signature` sign each attempt."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return (): `outgoing.secrets` lists the secrets of this block."""
        return ()

    @property
    def sent_secrets(self) -> tuple[tuple[str, str], ...]:
        """Return the references of secrets that requests have, each with its host."""
        signing = ((self.secret, self.host),) if self.secret else ()
        return (*super().sent_secrets, *signing)


@block("webhook_send", WebhookSendArgs, deferred_call=EXECUTOR)
def webhook_send(call: Call, args: WebhookSendArgs) -> Message | DeferredCall:
    """Post `body`, or else the JSON of the message, and return the answer like `http_request`. A
    repeated request has the same `webhook-id`.
    """
    if call.got is not None:
        return take_answer(call)
    value = read_json(call.message)
    if args.body is None:
        content = to_text(value) if not isinstance(value, str) else call.text
    else:
        content = args.body_template.render(value, call.limits.message_bytes)
    return make_request(
        call, args, method="POST", content=content, type=JSON, expected=[], secret=args.secret
    )
