"""The nouns of the operations, as attributes of the clients and of an embedded store.

A class such as RemoteRecords is made when it is first used. nouns.pyi declares all classes for
editors and type checkers; memrelay/client/stub.py writes it.
"""

import re

from memrelay.client.methods import ASYNC, BLOCKING, EMBEDDED, REMOTE, Noun, Nouns, find_noun_class


class RemoteNouns(Nouns):
    """The nouns of the async client."""

    _interface = REMOTE


class BlockingNouns(Nouns):
    """The nouns of the blocking client."""

    _interface = BLOCKING


class EmbeddedNouns(Nouns):
    """The nouns of the embedded store."""

    _interface = EMBEDDED


class AsyncNouns(Nouns):
    """The nouns of the call of an async block."""

    _interface = ASYNC


def __getattr__(name: str) -> type[Noun]:
    prefix, *words = re.findall("[A-Z][a-z]*", name) or [""]
    for interface in (REMOTE, BLOCKING, EMBEDDED, ASYNC):
        if interface.prefix == prefix and (
            noun_class := find_noun_class(interface, "_".join(words).lower())
        ):
            return noun_class
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
