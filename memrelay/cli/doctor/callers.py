"""Checks of keys and secrets: of the settings, and of the webhooks of deployed pipelines."""

import asyncio
import importlib
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson

from memrelay.cli.composition import (
    make_reference_absolute,
    make_seal_keys,
    make_secrets,
    make_secrets_of_operator,
    secrets_folder,
)
from memrelay.cli.doctor import Finding, fault, ok, warning
from memrelay.cli.doctor.service import CATALOG_FAULTS, open_existing_catalog
from memrelay.cli.settings import Settings
from memrelay.cli.settings_sections import JwtSettings
from memrelay.cli.terminal.readable import counted
from memrelay.installation import install_extra
from memrelay.memory.errors import SealKeyMissing
from memrelay.pipelines.check import check as check_bundle
from memrelay.pipelines.check import read_bundle
from memrelay.pipelines.report import Report
from memrelay.pipelines.secret_references import (
    SecretOutsideFolder,
    SecretResolver,
    find_value_faults,
    list_references,
)
from memrelay.pipelines.webhook_secrets import describe_token_faults

KEY = b"wf_webhook_sender"


async def check_issuers(settings: Settings) -> list[Finding]:
    """Read the key set of each issuer in `web.jwt`."""
    return [await asyncio.to_thread(_check_issuer, one) for one in settings.web.jwt]


async def check_seal_keys(settings: Settings) -> list[Finding]:
    """Read each key of `memory.seal_keys`."""
    if not settings.memory.seal_keys:
        return []
    try:
        sealer = await make_seal_keys(settings).read()
    except SealKeyMissing:
        return [fault("seal keys", "cryptography is missing", install_extra("seal"))]
    except (LookupError, ValueError) as error:
        remedy = "correct memory.seal_keys, or the key; internal values need it (503)"
        return [fault("seal keys", str(error), remedy)]
    if sealer is None:
        return []
    text = f"{counted(len(settings.memory.seal_keys), 'key')}; {sealer.current_id} seals"
    return [ok("seal keys", text)]


async def check_block_secrets(settings: Settings) -> list[Finding]:
    """Read each secret of `agents.secrets`."""
    resolver, references = make_secrets(settings), settings.agents.secrets
    remedy = "correct it where the worker runs, or remove it from agents.secrets"
    findings = []
    for reference in references:
        findings += await _check_value("secrets", resolver.read_for_block, reference, remedy)
    if references and not findings:
        return [ok("secrets", f"blocks may use {counted(len(references), 'secret')}")]
    return findings


async def check_outgoing(settings: Settings) -> list[Finding]:
    """Read each secret of `outgoing.secrets`, and report wide switches."""
    findings = []
    if settings.agents.private:
        text = "agents.private lets models and imports reach every private address"
        remedy = "list their hosts in outgoing.private, with `for: [models, import]`, instead"
        findings.append(warning("outgoing", text, remedy))
    resolver = make_secrets(settings)
    remedy = "correct it where the worker runs, or remove it from outgoing.secrets"
    for one in settings.outgoing.secrets:
        findings += await _check_value("outgoing", resolver.read, one.ref, remedy)
    return findings


async def check_embedding_key(settings: Settings) -> list[Finding]:
    """Read `embedding.key`."""
    if not settings.embedding.key:
        return []
    reference = make_reference_absolute(settings.embedding.key, secrets_folder(settings))
    read = make_secrets_of_operator().read
    remedy = "correct embedding.key, or the key; records get no vectors until then"
    findings = await _check_value("embedding.key", read, reference, remedy)
    return findings or [ok("embedding.key", f"{reference} can be read")]


async def _check_value(
    check: str, read: Callable[[str], str], reference: str, remedy: str
) -> list[Finding]:
    try:
        value = await asyncio.to_thread(read, reference)
    except LookupError as error:
        return [fault(check, str(error), remedy)]
    return [fault(check, f"{reference} {one}", remedy) for one in describe_token_faults(value)]


async def check_webhook_secrets(settings: Settings) -> list[Finding]:
    """Read the tokens and secrets of the webhooks of each deployed pipeline."""
    try:
        async with open_existing_catalog(settings) as catalog:
            active = await catalog.active() if catalog is not None else []
            sources = [(one.uid, await catalog.source(one.hash)) for one in active if catalog]
    except CATALOG_FAULTS:
        return []  # check_catalog reports it
    findings = await asyncio.to_thread(_check_webhooks, make_secrets(settings), sources)
    if not settings.web.public_url:
        findings += await asyncio.to_thread(_check_signed_urls, sources)
    return findings


def _check_webhooks(
    secrets: SecretResolver, sources: Sequence[tuple[str, bytes | None]]
) -> list[Finding]:
    remedy = "correct it where the web server runs; until then it admits no webhook"
    findings, count = [], 0
    for uid, source in sources:
        agents = read_bundle(orjson.loads(source or b"{}"), Report()).agents
        for place, reference in list_references(agents):
            count += 1
            try:
                faults = find_value_faults(agents[int(place[1])], place, reference, secrets)
            except SecretOutsideFolder as error:
                faults = [str(error)]
            alias = agents[int(place[1])].agent_alias
            findings += [
                fault("webhooks", f"{uid}, agent {alias}: {one}", remedy) for one in faults
            ]
    if count and not findings:
        return [ok("webhooks", f"{counted(count, 'reference')} to tokens and secrets can be used")]
    return findings


def _check_signed_urls(sources: Sequence[tuple[str, bytes | None]]) -> list[Finding]:
    """Report webhooks of senders that sign the URL, which the settings do not tell."""
    remedy = "set web.public_url to the URL of this server as its senders see it"
    checked = [
        (uid, check_bundle(source or b"", public_url=""))
        for uid, source in sources
        if KEY in (source or b"")
    ]
    faults = [(uid, one) for uid, result in checked for one in result.faults]
    return [
        fault("webhooks", f"{uid}, {one.as_line()}", remedy)
        for uid, one in faults
        if one.pointer.endswith("/wf_webhook_sender")
    ]


def _check_issuer(issuer: JwtSettings) -> Finding:
    try:
        # PyJWT is optional, and only this check needs it.
        jwks = importlib.import_module("memrelay.web.auth.jwks")
    except ModuleNotFoundError:
        return fault("jwt", "web.jwt is set, but PyJWT is missing", install_extra("jwt"))
    try:
        if issuer.jwks.startswith("file:"):
            data = Path(issuer.jwks.removeprefix("file:")).expanduser().read_bytes()
        else:
            data = jwks.fetch_key_set(issuer.jwks, private=issuer.private)
        keys = jwks.parse_key_set(data, issuer.jwks).keys
    except (OSError, ValueError, jwks.KeySetFault) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return fault(
            "jwt",
            f"the key set {issuer.jwks} is not usable: {reason}",
            "correct web.jwt, or the key set; tokens of this issuer are refused until then",
        )
    return ok("jwt", f"{issuer.jwks} has {counted(len(keys), 'key')}")
