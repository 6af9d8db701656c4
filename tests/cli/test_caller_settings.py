"""The settings `web.jwt` and `memory.seal_keys`, and their checks by `memrelay doctor`."""

import asyncio
from pathlib import Path

import orjson
import pytest

from memrelay.cli.composition import is_listed, make_outgoing_rules
from memrelay.cli.doctor.callers import (
    check_block_secrets,
    check_issuers,
    check_outgoing,
    check_seal_keys,
)
from memrelay.cli.settings import Settings, SettingsError, load_settings
from tests.support.jwts import KeyPair, write_key_set

ENTRY = {"issuer": "https://id.example.com", "audience": "m", "jwks": "file:k", "pipeline": "u"}


def load(tmp_path: Path, **fields: object) -> Settings:
    (tmp_path / "config.yaml").write_bytes(orjson.dumps({"web": {"jwt": [ENTRY | fields]}}))
    return load_settings(tmp_path / "config.yaml", {})


def test_an_issuer_has_defaults_and_comes_from_the_file_or_the_environment(tmp_path: Path) -> None:
    (from_file,) = load(tmp_path, algorithms=["ES256"]).web.jwt
    variables = {"MEMRELAY_WEB__JWT": orjson.dumps([ENTRY]).decode()}
    (from_variable,) = load_settings(tmp_path / "config.yaml", variables).web.jwt

    assert (from_file.algorithms, from_file.agent_claim) == (("ES256",), "agent_id")
    assert from_variable.algorithms == ("RS256", "EdDSA", "ES256")


@pytest.mark.parametrize("text", ["nonsense", "{}", '"x"'])
def test_a_variable_without_a_list_of_issuers_is_a_fault(tmp_path: Path, text: str) -> None:
    load(tmp_path)

    with pytest.raises(SettingsError, match="MEMRELAY_WEB__JWT: must be a list of issuers"):
        load_settings(tmp_path / "config.yaml", {"MEMRELAY_WEB__JWT": text})


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"jwks": "http://id.example.com/keys"}, "jwks: must be file:PATH or an https URL"),
        ({"algorithms": ["HS256"]}, "algorithms.0: "),
        ({"algorithms": []}, "algorithms: "),
        ({"pipeline": ""}, "pipeline: "),
        ({"isuer": "x"}, "isuer: "),
    ],
    ids=str,
)
def test_a_fault_of_an_issuer_names_its_field(
    tmp_path: Path, fields: dict[str, object], fault: str
) -> None:
    with pytest.raises(SettingsError, match=rf"web\.jwt\.0\.{fault}"):
        load(tmp_path, **fields)


def test_doctor_reports_a_key_set_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    settings = load(tmp_path, jwks=f"file:{file}")

    (missing,) = asyncio.run(check_issuers(settings))
    file.write_bytes(b"[]")
    (malformed,) = asyncio.run(check_issuers(settings))
    write_key_set(file, KeyPair("one"))
    (good,) = asyncio.run(check_issuers(settings))

    assert [one.level for one in (missing, malformed, good)] == ["fault", "fault", "ok"]
    assert "No such file" in missing.text
    assert '{"keys": [...]}' in malformed.text
    assert good.text == f"file:{file} has 1 key"


def test_doctor_reports_a_secret_of_blocks_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("agents: {secrets: ['file:model', 'file:other']}")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "other").write_text("x")
    settings = load_settings(tmp_path / "config.yaml", {"MEMRELAY_MEMORY__ROOT": str(tmp_path)})

    (missing,) = asyncio.run(check_block_secrets(settings))
    (tmp_path / "secrets" / "model").write_text("sk-1")
    (good,) = asyncio.run(check_block_secrets(settings))

    assert (missing.level, good.level) == ("fault", "ok")
    assert "file:model cannot be read" in missing.text
    assert good.text == "blocks may use 2 secrets"


def test_the_rules_for_outgoing_requests_come_from_the_settings(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("agents:\n  private: true\n")
    private = [{"host": "Ollama.lan", "port": 11434, "for": ["models"]}]
    secrets = [{"ref": "env:SLACK", "hosts": ["hooks.slack.com"]}]
    settings = load_settings(
        tmp_path / "config.yaml",
        {
            "MEMRELAY_OUTGOING__PORTS": "8443, 8080",
            "MEMRELAY_OUTGOING__HTTP": "true",
            "MEMRELAY_OUTGOING__PRIVATE": orjson.dumps(private).decode(),
            "MEMRELAY_OUTGOING__SECRETS": orjson.dumps(secrets).decode(),
            "MEMRELAY_STORAGE__URL": "postgresql://u:p@db.lan/m",
        },
    )

    rules = make_outgoing_rules(settings)

    assert (rules.ports, rules.http) == ({8443, 8080}, True)
    assert rules.open_for == {"models", "import"}
    assert rules.own == (("127.0.0.1", 8765), ("db.lan", 5432))
    assert rules.may_send("env:SLACK", "hooks.slack.com", "any")
    assert not rules.may_send("env:SLACK", "evil.example", "any")
    assert is_listed(settings, "models", "http://ollama.lan:11434/v1")
    assert not is_listed(settings, "import", "http://ollama.lan:11434")
    wide, unset = asyncio.run(check_outgoing(settings))
    assert (wide.level, unset.level) == ("warning", "fault")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("PRIVATE", '[{"host": "a.lan", "port": "*", "for": ["http"]}]'),
        ("PRIVATE", '[{"host": "*", "port": 80, "for": ["http"]}]'),
        ("PRIVATE", '[{"host": "a.lan", "port": 80, "for": []}]'),
        ("PRIVATE", '[{"host": "a.lan", "port": 80, "for": ["web"]}]'),
        ("PRIVATE", '[{"host": "a.lan", "port": 80, "for": ["http"], "pipelines": ["a b"]}]'),
        ("PRIVATE", "a.lan:80"),
        ("PORTS", "0"),
        ("SECRETS", '[{"ref": "sk-123", "hosts": ["a.example"]}]'),
        ("SECRETS", '[{"ref": "env:A", "hosts": []}]'),
        ("SECRETS", '[{"ref": "env:A", "hosts": ["https://a.example/"]}]'),
    ],
)
def test_a_malformed_rule_for_outgoing_requests_is_a_fault(
    tmp_path: Path, setting: str, value: str
) -> None:
    (tmp_path / "config.yaml").write_text("")

    with pytest.raises(SettingsError, match=r"OUTGOING__|outgoing\.") as caught:
        load_settings(tmp_path / "config.yaml", {f"MEMRELAY_OUTGOING__{setting}": value})
    assert "sk-123" not in str(caught.value)


def load_seal_keys(folder: Path, references: str) -> Settings:
    (folder / "config.yaml").write_text("")
    variables = {
        "MEMRELAY_MEMORY__ROOT": str(folder),
        "MEMRELAY_MEMORY__SEAL_KEYS": references,
    }
    return load_settings(folder / "config.yaml", variables)


def test_seal_keys_are_references_and_a_fault_does_not_repeat_the_key(tmp_path: Path) -> None:
    settings = load_seal_keys(tmp_path, "env:A, file:b.key")

    assert settings.memory.seal_keys == ("env:A", "file:b.key")
    assert "b.key" not in repr(settings)
    with pytest.raises(SettingsError, match="env:NAME or file:PATH") as raised:
        load_seal_keys(tmp_path, "00" * 32)
    assert "0000" not in str(raised.value)


def test_doctor_reports_a_seal_key_that_cannot_be_read(tmp_path: Path) -> None:
    settings = load_seal_keys(tmp_path, "file:seal.key")
    file = tmp_path / "secrets" / "seal.key"
    file.parent.mkdir()

    (missing,) = asyncio.run(check_seal_keys(settings))
    file.write_text("short")
    (malformed,) = asyncio.run(check_seal_keys(settings))
    file.write_text("ab" * 32)
    (good,) = asyncio.run(check_seal_keys(settings))

    assert [one.level for one in (missing, malformed, good)] == ["fault", "fault", "ok"]
    assert "64 hexadecimal digits" in malformed.text
    assert good.text.startswith("1 key; ")
