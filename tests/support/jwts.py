"""An issuer of JWTs with its own keys, whose key set is a file."""

import time
from pathlib import Path
from typing import Any

import jwt
import orjson
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from memrelay.web.server.options import JwtIssuer

ISSUER, AUDIENCE = "https://id.example.com", "memrelay"
ALGORITHMS = ("RS256", "EdDSA", "ES256")


class KeyPair:
    """A private key, its id and its algorithm."""

    def __init__(self, kid: str, algorithm: str = "EdDSA") -> None:
        self.kid, self.algorithm = kid, algorithm
        self.private: Any
        if algorithm == "RS256":
            self.private = rsa.generate_private_key(65537, 2048)
        elif algorithm == "ES256":
            self.private = ec.generate_private_key(ec.SECP256R1())
        else:
            self.private = ed25519.Ed25519PrivateKey.generate()

    @property
    def jwk(self) -> dict[str, Any]:
        """The public key as JSON."""
        kinds: dict[str, Any] = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}
        public = kinds[self.algorithm].to_jwk(self.private.public_key(), as_dict=True)
        return {**public, "kid": self.kid, "use": "sig"}

    def sign(self, *, kid: str | None = "", algorithm: str = "", **claims: Any) -> str:
        """Return a token for five minutes. `kid` None omits it; a claim None omits the claim."""
        now_s = int(time.time())
        common = {"iss": ISSUER, "aud": AUDIENCE, "exp": now_s + 300, "sub": "a1"}
        kept = {name: value for name, value in (common | claims).items() if value is not None}
        headers = {} if kid is None else {"kid": kid or self.kid}
        return jwt.encode(kept, self.private, algorithm or self.algorithm, headers)


def key_set(*pairs: KeyPair) -> bytes:
    """Return the key set of these keys."""
    return orjson.dumps({"keys": [pair.jwk for pair in pairs]})


def write_key_set(file: Path, *pairs: KeyPair) -> None:
    """Replace the key set in a file as a whole."""
    fresh = file.with_suffix(".fresh")
    fresh.write_bytes(key_set(*pairs))
    fresh.replace(file)


def make_issuer(file: Path, pipeline: str, **fields: Any) -> JwtIssuer:
    """Return an entry of `web.jwt` for the key set in a file."""
    return JwtIssuer(
        **{
            "issuer": ISSUER,
            "audience": AUDIENCE,
            "jwks": f"file:{file}",
            "pipeline": pipeline,
            "algorithms": ALGORITHMS,
            "agent_claim": "agent_id",
            "user_claim": "user_id",
            **fields,
        }
    )
