"""The values of secrets: which ones cannot work, and the keys inside a webhook's secret."""

from base64 import b64decode
from binascii import Error as Base64Error

SECRET_PREFIX = "whsec_"
# Senders show a secret with the version of its signatures, or in quotes.
VERSION_PREFIX, QUOTES = "v1,", "\"'"
COMMENT = "#"


def split_secrets(text: str) -> list[str]:
    """Return the secrets of a text, separated by white space. `#` begins a comment."""
    return [secret for line in text.splitlines() for secret in line.partition(COMMENT)[0].split()]


def parse_key(secret: str) -> bytes:
    """Return the key of a secret `whsec_<base64>`. Raises ValueError if it is malformed."""
    bare = secret.strip(QUOTES).removeprefix(VERSION_PREFIX).removeprefix(SECRET_PREFIX)
    try:
        key = b64decode(bare, validate=True)
    except (Base64Error, ValueError) as error:
        raise ValueError(f"a secret must be {SECRET_PREFIX} followed by base64") from error
    if not key:
        raise ValueError("a secret must not be empty")
    return key


def describe_token_faults(value: str) -> list[str]:
    """Return why no caller can send a value as a token or key, most likely. Never repeats it."""
    if not value.strip():
        return ["is empty"]
    if value[0] in QUOTES and value[-1:] == value[0]:
        return ["begins and ends with quotes, which count as part of it: remove them"]
    if value != value.strip() or not value.isprintable():
        return ["has white space at an end or control characters: store a single line"]
    return []


def describe_secret_faults(value: str) -> list[str]:
    """Return which of the secrets in a value cannot verify a signature. Never repeats them."""
    secrets = split_secrets(value)
    if not secrets:
        return ["has no secret"]
    faults = []
    for number, secret in enumerate(secrets, 1):
        try:
            parse_key(secret)
        except ValueError as error:
            faults.append(f"is not usable: {error} (number {number} of {len(secrets)})")
    return faults
