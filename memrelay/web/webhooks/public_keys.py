"""Signatures with public keys. Only senders that use them load this optional part."""

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.x509 import load_pem_x509_certificate


def verify_ed25519(key: bytes, signature: bytes, signed: bytes) -> bool:
    """Return whether an Ed25519 signature is valid. A malformed key or signature is not."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, signed)
    except (InvalidSignature, ValueError):
        return False
    return True


def verify_rsa(certificate: bytes, signature: bytes, signed: bytes, algorithm: str) -> bool:
    """Return whether the key of a certificate in PEM made a PKCS #1 signature.

    `algorithm` is sha1 or sha256. A malformed certificate made none.
    """
    try:
        key = load_pem_x509_certificate(certificate).public_key()
        if not isinstance(key, RSAPublicKey):
            return False
        digest = SHA1() if algorithm == "sha1" else SHA256()  # version 1 of SNS
        key.verify(signature, signed, PKCS1v15(), digest)
    except (InvalidSignature, ValueError):
        return False
    return True
