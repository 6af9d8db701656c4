"""Checks of the keys in the settings: of JWT issuers, for sealed values and for blocks."""

import asyncio
import importlib
from pathlib import Path

from memrelay.cli.composition import make_seal_keys, make_secrets
from memrelay.cli.doctor import Finding, fault, ok
from memrelay.cli.settings import Settings
from memrelay.cli.settings_sections import JwtSettings
from memrelay.cli.terminal.readable import counted
from memrelay.installation import install_extra
from memrelay.memory.errors import SealKeyMissing


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
    remedy = "set it where the worker runs, or remove it from agents.secrets"
    findings = []
    for reference in references:
        try:
            await asyncio.to_thread(resolver.read_for_block, reference)
        except LookupError as error:
            findings.append(fault("secrets", str(error), remedy))
    if references and not findings:
        return [ok("secrets", f"blocks may use {counted(len(references), 'secret')}")]
    return findings


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
