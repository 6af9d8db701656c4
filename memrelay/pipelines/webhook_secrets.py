"""The values of secrets: which ones cannot work, and the keys inside a webhook's secret.

How a secret is written depends on its sender:

- `standard`: `whsec_<base64>`, as senders show it: with `v1,` in front, in quotes, without padding,
  or URL-safe.
- `base64` and `hex`: that encoding of the key.
- `text`: the key as it is, one secret a line.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from binascii import unhexlify
from typing import Literal

KeyForm = Literal["standard", "base64", "hex", "text"]
SECRET_PREFIX = "whsec_"
# Senders show a secret with the version of its signatures, or in quotes.
VERSION_PREFIX, QUOTES = "v1,", "\"'"
COMMENT = "#"
URL_SAFE = str.maketrans("-_", "+/")
# The shortest key whose base64 may lack its padding. A cut one would often look like that.
MIN_UNPADDED_BYTES = 16


def split_secrets(text: str, form: KeyForm = "standard") -> list[str]:
    """Return the secrets of a text, one a line for `text`, else separated by white space.

    `#` begins a comment, but not for `text`, where it may be part of the secret.
    """
    lines = re.split(r"\r?\n", text)
    if form == "text":
        return [line for line in lines if line]
    return [secret for line in lines for secret in line.partition(COMMENT)[0].split()]


def parse_key(secret: str, form: KeyForm = "standard") -> bytes:
    """Return the key of a secret. Raises ValueError if it is malformed."""
    match form:
        case "text":
            key = secret.encode(errors="surrogateescape")
        case "hex":
            try:
                key = unhexlify(secret.strip(QUOTES))
            except ValueError as error:
                raise ValueError("a secret must be hexadecimal digits") from error
        case "base64":
            key = _decode_base64(secret.strip(QUOTES), "a secret must be base64")
        case _:
            bare = secret.strip(QUOTES).removeprefix(VERSION_PREFIX).strip(QUOTES)
            rule = f"a secret must be {SECRET_PREFIX} followed by base64"
            key = _decode_base64(bare.removeprefix(SECRET_PREFIX), rule)
    if not key:
        raise ValueError("a secret must not be empty")
    return key


def _decode_base64(text: str, rule: str) -> bytes:
    """Return the decoded key; the alphabet may be URL-safe, and the padding missing.

    Raises ValueError that states `rule`.
    """
    plain = text.translate(URL_SAFE)
    missing = -len(plain) % 4
    try:
        key = b64decode(plain + "=" * missing, validate=True)
    except (Base64Error, ValueError) as error:
        raise ValueError(rule) from error
    # Bits that belong to no byte show that the end is missing.
    is_cut = missing and b64encode(key).decode().rstrip("=") != plain
    if missing and (is_cut or len(key) < MIN_UNPADDED_BYTES):
        raise ValueError(f"{rule}; its end seems to be missing")
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


def describe_secret_faults(value: str, form: KeyForm = "standard") -> list[str]:
    """Return which of the secrets in a value cannot verify a signature. Never repeats them."""
    secrets = split_secrets(value, form)
    if not secrets:
        return ["has no secret"]
    faults = []
    for number, secret in enumerate(secrets, 1):
        which = f"(number {number} of {len(secrets)})"
        try:
            parse_key(secret, form)
        except ValueError as error:
            faults.append(f"is not usable: {error} {which}")
        if form == "text":
            faults += [f"{one} {which}" for one in describe_token_faults(secret)]
    return faults
