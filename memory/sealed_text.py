"""The form of a sealed value (memory/sealing.py)."""

import re

PREFIX = "v1."
# The key id, the nonce, and the ciphertext with its tag. The last two are base64url.
FORM = re.compile(r"v1\.[0-9a-f]{16}\.[A-Za-z0-9_-]{16}\.[A-Za-z0-9_-]{23,}")


def is_sealed(value: object) -> bool:
    """Return whether a stored value has the form of a sealed text."""
    return isinstance(value, str) and FORM.fullmatch(value) is not None
