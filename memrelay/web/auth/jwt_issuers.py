"""Issuers whose JWTs authenticate callers, from the setting `web.jwt`.

This module is light. The verifier and PyJWT are loaded only if an issuer is configured.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path

from memrelay.memory.errors import MemoryFault
from memrelay.web.auth.authorizer import TokenVerifier
from memrelay.web.server.options import JwtIssuer

INSTALL = "web.jwt needs PyJWT: install memrelay[jwt], or remove the setting"


class NoPyJwt(MemoryFault):
    """An issuer is configured, but PyJWT is not installed."""


def load_verifier(issuers: Sequence[JwtIssuer], folder: Path) -> TokenVerifier | None:
    """Return a verifier, or None without issuers. `folder` keeps copies of fetched key sets.

    Raises NoPyJwt.
    """
    if not issuers:
        return None
    try:
        module = importlib.import_module("memrelay.web.auth.jwt_callers")
    except ModuleNotFoundError as error:
        if error.name not in ("jwt", "cryptography"):
            raise
        raise NoPyJwt(INSTALL) from error
    verifier: TokenVerifier = module.make_verifier(issuers, folder)
    return verifier
