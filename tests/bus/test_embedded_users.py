"""The users of the embedded server: the password of the default user, and users that are added."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from memrelay.bus.embedded.launcher import EmbeddedServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """Yield a running server with a password."""
    server = EmbeddedServer(tmp_path / "data")
    server.start()
    yield server
    server.stop()


def restart(server: EmbeddedServer) -> None:
    server.stop()
    server.start()


def client_of(server: EmbeddedServer, **user: str) -> redis.Redis:
    return redis.Redis(unix_socket_path=str(server.socket_path), **user)


def test_the_default_user_needs_a_password_that_survives_restarts(server: EmbeddedServer) -> None:
    address, folder = server.address, server.socket_path.parent
    password, mode = address.password, (folder / "password").stat().st_mode
    with pytest.raises(redis.AuthenticationError):
        client_of(server).ping()

    restart(server)

    assert (server.address, (folder / "password").read_text()) == (address, password + "\n")
    assert (len(password), mode & 0o777) == (32, 0o600)
    assert client_of(server, password=password).ping()
    command = Path(f"/proc/{server.pid}/cmdline").read_text()
    assert password not in command + (folder / "server.log").read_text() + f"{address}{address!r}"


def test_users_that_an_administrator_saved_survive_a_restart(server: EmbeddedServer) -> None:
    admin = client_of(server, password=server.address.password)
    admin.execute_command("ACL", "SETUSER", "guest", "on", ">tea", "+ping")
    admin.execute_command("ACL", "SAVE")

    restart(server)

    assert client_of(server, username="guest", password="tea").ping()
    assert client_of(server, password=server.address.password).ping()


def test_the_url_is_valid_for_any_name_of_the_folder(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path / 'a "b" %41 #?')
    server.start()
    try:
        assert redis.Redis.from_url(server.address.make_url()).ping()
    finally:
        server.stop()
