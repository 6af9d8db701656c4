"""The address of an OpenAI-compatible service, as the arguments of blocks have it."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator


def _check_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or parts.username or parts.query or parts.fragment or not url.isprintable():
        raise ValueError(
            "must be the URL of an OpenAI-compatible API, such as https://api.openai.com/v1, "
            "without a key"
        )
    return url


Url = Annotated[str, AfterValidator(_check_url)]
