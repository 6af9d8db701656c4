"""Settings: defaults, the config file, the environment, and the faults of both."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from memrelay.cli.composition import bus_address, make_secrets_of_operator, seal_references
from memrelay.cli.services import embedding_options
from memrelay.cli.settings import (
    CHECKOUT_FILE,
    Settings,
    SettingsError,
    default_config_file,
    load_settings,
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def faults_of(config: Path, environ: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as raised:
        load_settings(config, environ)
    return raised.value.faults


def test_config_yaml_lists_every_setting_with_its_default(config: Path) -> None:
    listed = yaml.safe_load(CHECKOUT_FILE.read_text())
    config.write_text(CHECKOUT_FILE.read_text())
    from_listed = load_settings(config, {})
    config.write_text("")

    from_nothing = load_settings(config, {})

    assert from_listed == from_nothing
    assert {section: set(keys) for section, keys in listed.items()} == {
        section: set(keys) for section, keys in from_nothing.model_dump().items()
    }


def test_the_environment_overrides_the_file_setting_by_setting(config: Path) -> None:
    config.write_text("worker: {batch: 10, max_hops: 5}\nlog:\n")

    settings = load_settings(
        config, {"MEMRELAY_WORKER__BATCH": "20", "MEMRELAY_LOG__FORMAT": "json"}
    )

    assert (settings.worker.batch, settings.worker.max_hops, settings.log.format) == (20, 5, "json")


def test_variables_of_other_programs_are_ignored(config: Path) -> None:
    config.write_text("")

    settings = load_settings(
        config,
        {
            "HOME": "/",
            "MEMRELAY_CONFIG": "elsewhere.yaml",
            "XMEMRELAY_BUS": "1",
            "MEMRELAY_SERVICE_HOST": "10.0.0.7",
            "MEMRELAY_SERVICE_PORT_HTTP": "8765",
            "MEMRELAY_PORT": "tcp://10.0.0.7:8765",
            "MEMRELAY_WEB_PORT_80_TCP_ADDR": "10.0.0.7",
        },
    )

    assert settings.worker.batch == 256


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("memroy: {}", 'memroy: unknown section (did you mean "memory"?)'),
        ("memory: {treads: 2}", 'memory.treads: unknown setting (did you mean "threads"?)'),
        ("worker: {errands: 2}", 'worker.errands: unknown setting (now "deferred_calls")'),
        ("memory: {threads: '2'}", "memory.threads: must be a valid integer"),
        ("memory: {threads: yes}", "memory.threads: must be a valid integer"),
        ("memory: {threads: 5}", "memory.threads: must be less than or equal to 4"),
        ("memory: {root: 7}", "memory.root: must be a path"),
        ("memory: 7", "memory: must hold settings, one per line"),
        (
            "log: {level: loud}",
            "log.level: must be 'debug', 'info', 'warning', 'error' or 'critical'",
        ),
        (
            "- memory",
            "must hold sections (memory, storage, bus, worker, web, embedding, secrets, agents, "
            "outgoing, blocks, log), each with its settings",
        ),
        (
            "web:\n  port: 1\nlog: {}\nweb:\n  host: ::1",
            'line 4: duplicate key "web" (first in line 1): merge them',
        ),
        ("web: {port: 1, port: 2}", 'line 1: duplicate key "port" (first in line 1): merge them'),
        ('memory: {root: "a\\0b"}', "memory.root: must be a path without the character NUL"),
        (
            "memory: {\n",
            "line 2: invalid YAML: expected the node content, but found '<stream end>'",
        ),
    ],
)
def test_a_fault_in_the_file_names_file_setting_and_fix(
    config: Path, written: str, fault: str
) -> None:
    config.write_text(written)

    assert faults_of(config, {}) == (f"{config}: {fault}",)


@pytest.mark.parametrize(
    ("variable", "text", "fault"),
    [
        ("MEMRELAY_BUS__ULR", "x", 'unknown setting (did you mean "MEMRELAY_BUS__URL"?)'),
        (
            "MEMRELAY_WORKER__ERRAND_S",
            "9",
            'unknown setting (now "MEMRELAY_WORKER__DEFERRED_CALL_S")',
        ),
        ("MEMRELAY_CONFIGS", "x", 'unknown setting (did you mean "MEMRELAY_CONFIG"?)'),
        ("MEMRELAY_WORKER__BATCH", "0", "must be greater than or equal to 1"),
        (
            "MEMRELAY_WORKER__BATCH",
            "many",
            "must be a valid integer",
        ),
        ("MEMRELAY_WORKER__LEASE_S", "3000000000", "must be less than or equal to 2147483647"),
        ("MEMRELAY_WORKER__HISTORY_DAYS", "3000000000", "must be less than or equal to 2147483647"),
        ("MEMRELAY_MEMORY__ROOT", "", "must be a path"),
        (
            "MEMRELAY_MEMORY__ROOT",
            "~nobody-here/x",
            "must be a complete path: the user after ~ has no home folder here",
        ),
        (
            "MEMRELAY_MEMORY__ROOT",
            "caf\udce9",
            "must be a path in UTF-8, and the name of a folder in it is not: rename that folder "
            "or use another path",
        ),
        ("MEMRELAY_PORT", "8765", 'unknown setting (did you mean "MEMRELAY_WEB__PORT"?)'),
    ],
)
def test_a_fault_in_the_environment_names_the_variable(
    config: Path, variable: str, text: str, fault: str
) -> None:
    config.write_text("")

    assert faults_of(config, {variable: text}) == (f"{variable}: {fault}",)


def test_all_faults_are_reported_at_once(config: Path) -> None:
    config.write_text("memory: {threads: none, rot: x}\nbuss: {}\n")

    faults = faults_of(config, {"MEMRELAY_LOG__LEVEL": "loud", "MEMRELAY_LOG__COLOR": "no"})

    named = {fault.removeprefix(f"{config}: ").split(":")[0] for fault in faults}
    assert named == {
        "memory.threads",
        "memory.rot",
        "buss",
        "MEMRELAY_LOG__LEVEL",
        "MEMRELAY_LOG__COLOR",
    }


def test_a_missing_file_is_reported_with_the_other_faults(tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"

    faults = faults_of(missing, {"MEMRELAY_WORKER__BATCH": "x"})

    assert faults[0] == (
        f"{missing}: cannot be read: No such file or directory; set MEMRELAY_CONFIG to another file"
    )
    assert faults[1].startswith("MEMRELAY_WORKER__BATCH: ")


@pytest.mark.parametrize(
    "url", ["http://user:secret@host/0", "redis://user:secret@host:port", "secret"]
)
def test_an_invalid_bus_url_is_rejected_without_repeating_it(config: Path, url: str) -> None:
    config.write_text(f"bus: {{url: '{url}'}}")

    (fault,) = faults_of(config, {})

    assert "bus.url: must be empty, unix:///path, redis://" in fault
    assert "secret" not in fault


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("key: sk-secret", "embedding.key: must be empty, env:NAME or file:PATH"),
        (
            "url: 'https://secret@host/v1'",
            "embedding.url: must be empty, or the URL without /embeddings",
        ),
        ("url: 'ftp://secret'", "embedding.url: must be empty, or the URL without /embeddings"),
        (
            "url: 'https://secret:99999/v1'",
            "embedding.url: must be empty, or the URL without /embeddings",
        ),
        (
            "url: 'https://secret/v 1'",
            "embedding.url: must be empty, or the URL without /embeddings",
        ),
        (
            "url: 'https://[secret/v1'",
            "embedding.url: must be empty, or the URL without /embeddings",
        ),
    ],
)
def test_a_key_in_the_settings_is_rejected_without_repeating_it(
    config: Path, written: str, rule: str
) -> None:
    config.write_text(f"embedding: {{{written}}}")

    (fault,) = faults_of(config, {})

    assert rule in fault
    assert "secret" not in fault


def test_the_repr_of_the_settings_has_no_password(config: Path) -> None:
    config.write_text("")

    settings = load_settings(config, {"MEMRELAY_BUS__URL": "redis://user:pass5d1f@host:6379/0"})

    assert settings.bus.url.startswith("redis://user:pass5d1f@")
    assert "pass5d1f" not in repr(settings)


def test_relative_paths_start_at_the_config_file_or_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etc").mkdir()
    monkeypatch.chdir(tmp_path)
    Path("etc/config.yaml").write_text("memory: {root: mine}\nbus: {server: /opt/valkey}\n")

    settings = load_settings(Path("etc/config.yaml"), {"MEMRELAY_BUS__SERVER": "bin/valkey"})

    assert settings.memory.root == tmp_path / "etc" / "mine"
    assert settings.bus.data == tmp_path / "etc" / "data" / "bus"
    assert settings.bus.server == tmp_path / "bin" / "valkey"


def test_a_path_that_the_locale_encodes_differently_from_sqlite_is_rejected(tmp_path: Path) -> None:
    environ = {
        "LC_ALL": "C",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONUTF8": "0",
        "MEMRELAY_MEMORY__ROOT": "données",
        "PATH": os.environ["PATH"],
    }

    ended = subprocess.run(
        [sys.executable, "-m", "memrelay.cli.main", "ls"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    assert ended.stderr == (
        "memrelay: MEMRELAY_MEMORY__ROOT: must be a path in plain ASCII while the locale is ascii: "
        "use another path or set LC_ALL=C.UTF-8\n"
    )


@pytest.mark.parametrize(
    "url",
    [
        "redis://:secret/x@host:6379/0",
        "redis://user:secret#x@host/0",
        "redis://:1/secret@host:6379/0",
        "rediss://:[secret@host/0",
        "sentinel://:secret/x@host:26379/name",
        "sentinel://user:1/secret@host:26379/name",
        "cluster://:secret/x@host:6379",
    ],
)
def test_special_characters_in_a_password_are_told_how_to_be_written(
    config: Path, url: str
) -> None:
    config.write_text("")

    (fault,) = faults_of(config, {"MEMRELAY_BUS__URL": url})

    assert "percent-encode special characters" in fault and "/ is %2F" in fault
    assert "secret" not in fault


def test_a_bus_url_of_another_kind_is_answered_with_all_schemes(config: Path) -> None:
    config.write_text("")

    (fault,) = faults_of(config, {"MEMRELAY_BUS__URL": "http://host"})

    for scheme in ("unix", "redis", "rediss", "sentinel", "rediss+sentinel", "cluster"):
        assert f" {scheme}://" in fault, fault
    assert "rediss+cluster://" in fault


def test_options_in_the_bus_url_are_refused_with_their_settings(config: Path) -> None:
    config.write_text("")

    (fault,) = faults_of(config, {"MEMRELAY_BUS__URL": "rediss://host/0?ssl_cert_reqs=none"})

    assert "has no options such as ?ssl_cert_reqs=none" in fault and "bus.ca" in fault


def test_a_slash_in_the_password_of_postgresql_is_refused(config: Path) -> None:
    config.write_text("")
    url = "postgresql://user:secret/x@host/base"

    (fault,) = faults_of(config, {"MEMRELAY_STORAGE__URL": url})

    assert "percent-encode" in fault and "secret" not in fault
    encoded = url.replace("/x", "%2Fx")
    assert load_settings(config, {"MEMRELAY_STORAGE__URL": encoded}).storage.url == encoded


@pytest.mark.parametrize(
    "name", ["a.example:8080", "*.example", "https://a.example", "a.example/x", "münchen.de", "a b"]
)
def test_a_host_with_a_port_a_scheme_or_a_wildcard_is_refused(config: Path, name: str) -> None:
    config.write_text("")

    (fault,) = faults_of(config, {"MEMRELAY_WEB__HOSTS": f"b.example,{name}"})

    assert "web.hosts" in fault or "MEMRELAY_WEB__HOSTS" in fault
    assert "without scheme, port, path or wildcard" in fault


@pytest.mark.parametrize(
    "text", ["a.example, b-2.example ,[::1]", '["a.example", "b-2.example", "::1"]']
)
def test_a_list_in_a_variable_has_commas_or_is_json(config: Path, text: str) -> None:
    config.write_text("")

    hosts = load_settings(config, {"MEMRELAY_WEB__HOSTS": text}).web.hosts

    assert hosts == ("a.example", "b-2.example", "::1")


def test_the_folders_of_blocks_must_exist(config: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "file").touch()
    config.write_text("blocks: {paths: [mine]}")
    as_json = json.dumps([str(tmp_path / "mine")])

    assert load_settings(config, {}).blocks.paths == (tmp_path / "mine",)
    assert load_settings(config, {"MEMRELAY_BLOCKS__PATHS": as_json}).blocks.paths == (
        tmp_path / "mine",
    )
    for name, problem in (("gone", "does not exist"), ("file", "is not a folder")):
        (fault,) = faults_of(config, {"MEMRELAY_BLOCKS__PATHS": str(tmp_path / name)})
        assert fault.endswith(f"must be a list of folders, and {tmp_path / name} {problem}")


@pytest.mark.parametrize("reference", ["file:~nobody-here/token", "file:a\0b", "file:", "env:"])
def test_a_reference_that_can_never_be_read_is_refused(config: Path, reference: str) -> None:
    config.write_text("")

    (fault,) = faults_of(config, {"MEMRELAY_EMBEDDING__KEY": reference})

    assert fault.startswith("MEMRELAY_EMBEDDING__KEY: must be")


def test_files_of_secrets_are_found_alike_for_all_settings(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for file, text in (("home/key", "of the home"), ("secrets/key", "\ufeffof the folder\n")):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text(text)
    config.write_text("memory: {root: .}")

    for reference, value in (("file:~/key", "of the home"), ("file:key", "of the folder")):
        environ = {"MEMRELAY_EMBEDDING__KEY": reference, "MEMRELAY_MEMORY__SEAL_KEYS": reference}
        settings = load_settings(config, environ)
        read_key = embedding_options(settings).read_key
        (seal_reference,) = seal_references(settings)

        assert read_key is not None and read_key() == value
        assert make_secrets_of_operator().read(seal_reference) == value


def test_the_grants_of_variables_are_a_list_or_a_text_with_commas(config: Path) -> None:
    config.write_text("secrets: {folder: hidden, env: ['a-1:ONE', 'b:TWO']}")

    settings = load_settings(config, {}).secrets
    text = load_settings(config, {"MEMRELAY_SECRETS__ENV": "b:TWO,c:_3"}).secrets.env

    assert (settings.folder, settings.env) == (
        config.parent / "hidden",
        (("a-1", "ONE"), ("b", "TWO")),
    )
    assert text == (("b", "TWO"), ("c", "_3"))
    (fault,) = faults_of(config, {"MEMRELAY_SECRETS__ENV": "ONE"})
    assert fault.startswith("MEMRELAY_SECRETS__ENV: must be a list of UID:NAME")


def test_an_empty_server_means_the_installed_one(config: Path) -> None:
    config.write_text("bus: {server: /opt/valkey}")

    assert load_settings(config, {"MEMRELAY_BUS__SERVER": ""}).bus.server is None


def test_the_config_file_is_the_named_one_then_the_folders_then_the_checkouts(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(config.parent)

    assert default_config_file({}) == CHECKOUT_FILE
    config.write_text("worker: {batch: 7}")
    assert default_config_file({}).absolute() == config
    assert default_config_file({"MEMRELAY_CONFIG": "named.yaml"}) == Path("named.yaml")
    assert load_settings(None, {}).worker.batch == 7


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().worker.batch = 1


LOG_PROGRAM = """
import logging
from memrelay.cli.logs import configure_logging
from memrelay.cli.settings import Settings
log = Settings.model_validate({"log": {"level": "warning", "format": "FORMAT"}}).log
configure_logging(log.level, log.format)
logging.getLogger().info("too_quiet")
try:
    secret = "s3cret"
    raise OSError("disk full")
except OSError:
    logging.getLogger().exception("write_failed", extra={"guid": "g1"})
"""


@pytest.mark.parametrize("format", ["console", "json"])
def test_the_log_settings_decide_what_reaches_stderr(format: str) -> None:
    program = LOG_PROGRAM.replace("FORMAT", format)

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=CHECKOUT_FILE.parent,
        capture_output=True,
        text=True,
        check=True,
    )

    first = done.stderr.splitlines()[0]
    assert "write_failed" in first
    assert "OSError: disk full" in done.stderr
    for unwanted in ("too_quiet", "s3cret", "\x1b"):
        assert unwanted not in done.stderr + done.stdout
    if format == "json":
        event = json.loads(first)
        assert (event["level"], event["guid"], event["timestamp"][-1]) == ("error", "g1", "Z")


def test_the_bus_address_has_the_tls_files(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "bus: {url: 'rediss://bus.example', ca: ca.pem, key: /etc/key.pem}"
    )

    address = bus_address(load_settings(tmp_path / "config.yaml", {}))

    assert (address.ca, address.certificate, address.key) == (
        str(tmp_path / "ca.pem"),
        "",
        "/etc/key.pem",
    )


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ("web: {base_path: 'memrelay'}", "web.base_path: must be empty, or a path such as"),
        ("web: {base_path: '/a/../b'}", "web.base_path: must be empty, or a path such as"),
        ("web: {public_url: 'memory.example'}", "web.public_url: must be the URL of this server"),
        (
            "web: {base_path: /relay, public_url: 'https://memory.example'}",
            "web.public_url: must have the path of web.base_path, /relay",
        ),
        ("web: {trusted_proxies: [nginx]}", "web.trusted_proxies: must be a list of addresses"),
    ],
)
def test_the_settings_of_a_reverse_proxy_are_checked(
    config: Path, written: str, fault: str
) -> None:
    config.write_text(written)

    (found,) = faults_of(config, {})

    assert fault in found
