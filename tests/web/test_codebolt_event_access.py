"""Access to the WebSocket of events: the scope read, and the end of a key."""

from tests.support.http import ask
from tests.support.keys import await_closed, make_key, revoke
from tests.support.listener import Listener
from tests.support.web_system import WebSystem

PATH = "/persistent-memory/events"


def test_a_listener_needs_read_and_is_disconnected_when_its_key_is_revoked() -> None:
    with WebSystem(WEB__RATE="0") as web_system:
        uid, root = web_system.deploy(), web_system.system.root
        reader, writer, stranger = (
            make_key(root, "read"),
            make_key(root, "write"),
            make_key(root, "read", pipelines=("other",)),
        )
        await_closed(web_system)
        url = f"/p/{uid}{PATH}"

        assert ask(web_system.url, "GET", url).status == 401
        assert ask(web_system.url, "GET", url, headers=writer.headers).status == 403
        assert ask(web_system.url, "GET", url, headers=stranger.headers).status == 404
        with Listener(web_system.url, uid, path=url, **reader.headers) as listener:
            revoke(root, reader)
            assert listener.close_frame().code == 1008
