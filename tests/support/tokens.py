"""An issuer of JSON Web Tokens, with its key set in a file."""

import base64
import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ISSUER, AUDIENCE = "https://issuer.example", "memrelay"


class TokenIssuer:
    """Signs tokens with an Ed25519 key. `jwks` is the file with the public key."""

    def __init__(self, folder: Path, kid: str = "k1") -> None:
        self._key, self._kid, self.jwks = Ed25519PrivateKey.generate(), kid, folder / "jwks.json"
        public = base64.urlsafe_b64encode(self._key.public_key().public_bytes_raw())
        keys = [{"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": public.decode().rstrip("=")}]
        self.jwks.write_text(json.dumps({"keys": keys}))

    def setting(self, pipeline: str) -> str:
        """Return an item of the setting `web.jwt` as JSON."""
        return json.dumps(
            {
                "issuer": ISSUER,
                "audience": AUDIENCE,
                "jwks": f"file:{self.jwks}",
                "algorithms": ["EdDSA"],
                "pipeline": pipeline,
                "user_claim": "user_id",
            }
        )

    def issue(self, subject: str, *, ends_in_s: float = 60.0, **claims: Any) -> str:
        """Return a token."""
        body = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "exp": time.time() + ends_in_s}
        return jwt.encode(body | claims, self._key, "EdDSA", headers={"kid": self._kid})
