"""A token that one web server has issued counts at once at another one of the memory root."""

from pathlib import Path

import pytest

from tests.support.oauth import running_oauth

pytestmark = pytest.mark.slow


def test_a_new_token_counts_at_another_server(tmp_path: Path) -> None:
    with running_oauth(tmp_path) as oauth:
        first = oauth.url
        oauth.web_system.start_web(WEB__PORT="0")
        other, oauth.web_system.url = oauth.web_system.url, first
        client, statuses = oauth.client(), []
        for _ in range(3):
            token = oauth.connect(client)["access_token"]
            oauth.web_system.url = other
            statuses.append(oauth.call(token).status)
            oauth.web_system.url = first

        assert other != first and statuses == [200] * 3
