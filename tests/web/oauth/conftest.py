"""A server with OAuth, which the tests of this folder share."""

from collections.abc import Iterator

import pytest

from tests.support.oauth import OAuthSystem, running_oauth


@pytest.fixture(scope="session")
def oauth(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OAuthSystem]:
    with running_oauth(tmp_path_factory.mktemp("oauth")) as system:
        yield system
        events = system.web_system.web.events
        assert not [event for event in events if event["event"] == "request_failed"]
