"""Parsing `bus.url`."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memrelay.bus.client.url import Address, parse
from memrelay.bus.errors import BadAddress


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("unix:///run/bus.sock", Address(path="/run/bus.sock")),
        ("unix:///a%20folder/%25/bus.sock", Address(path="/a folder/%/bus.sock")),
        (
            "unix://keeper:se%3Acret@/run/bus.sock",
            Address(path="/run/bus.sock", username="keeper", password="se:cret"),
        ),
        ("redis://localhost", Address(host="localhost")),
        ("redis://keeper@localhost", Address(host="localhost", username="keeper")),
        ("redis://localhost:7000/", Address(host="localhost", port=7000)),
        ("redis://localhost:7000/3", Address(host="localhost", port=7000, database=3)),
        ("redis://[::1]:7000", Address(host="::1", port=7000)),
        ("rediss://bus.example", Address(host="bus.example", tls=True)),
        ("redis://:se%3Acret@localhost", Address(host="localhost", password="se:cret")),
        (
            "redis://keeper:secret@localhost/1",
            Address(host="localhost", username="keeper", password="secret", database=1),
        ),
    ],
)
def test_a_url_is_parsed_into_server_and_credentials(url: str, address: Address) -> None:
    assert parse(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost",
        "localhost:6379",
        "http://localhost",
        "unix://",
        "redis://",
        "redis:///1",
        "redis://:6379",
        "redis://localhost:port",
        "redis://localhost:99999",
        "redis://localhost/one",
        "redis://localhost/-1",
        "redis://localhost?password=secret",
        "unix:///run/bus.sock?db=3",
        "redis://localhost/#secret",
        "unix://run/bus.sock",
        "redis://bus..example",
        f"redis://{'a' * 64}.example",
        f"redis://localhost/{'1' * 5000}",
    ],
)
def test_an_invalid_url_is_refused_without_repeating_a_password(url: str) -> None:
    with pytest.raises(BadAddress, match=r"bus\.url") as refused:
        parse(url)

    assert "secret" not in str(refused.value)


@given(
    st.text() | st.builds("{}://{}".format, st.sampled_from(["redis", "rediss", "unix"]), st.text())
)
@example("redis://[")
@example("redis://localhost/²")
@example("redis://a\x00b")
def test_any_text_is_parsed_or_refused(url: str) -> None:
    try:
        address = parse(url)
    except BadAddress:
        return
    assert address.path or address.host


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://keeper:secret@localhost:7000/1", "redis://localhost:7000/1"),
        ("rediss://:secret@localhost", "rediss://localhost:6379/0"),
        ("unix:///run/bus.sock", "unix:///run/bus.sock"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert str(parse(url)) == shown
