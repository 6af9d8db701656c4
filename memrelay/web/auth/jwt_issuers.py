"""Issuers whose JWTs authenticate callers, from the setting `web.jwt`.

This module is light. The verifier and PyJWT are loaded only if an issuer is configured.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, cast

from memrelay.memory.errors import MemoryFault
from memrelay.web.auth.authorizer import TokenVerifier
from memrelay.web.server.options import JwtIssuer

INSTALL = "web.jwt needs PyJWT: install memrelay[jwt], or remove the setting"


class NoPyJwt(MemoryFault):
    """An issuer is configured, but PyJWT is not installed."""


class _Loaded(Protocol):
    def make_verifier(self, issuers: Sequence[JwtIssuer], folder: Path) -> TokenVerifier: ...


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
    return cast(_Loaded, module).make_verifier(issuers, folder)
