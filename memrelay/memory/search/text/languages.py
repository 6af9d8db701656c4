"""The languages with known stems, by PyStemmer's names. Listed here, so that PyStemmer need not be
loaded.
"""

from typing import Annotated

from pydantic import AfterValidator

LANGUAGES = (
    "arabic",
    "armenian",
    "basque",
    "catalan",
    "czech",
    "danish",
    "dutch",
    "dutch_porter",
    "english",
    "esperanto",
    "estonian",
    "finnish",
    "french",
    "german",
    "greek",
    "hindi",
    "hungarian",
    "indonesian",
    "irish",
    "italian",
    "lithuanian",
    "nepali",
    "norwegian",
    "persian",
    "polish",
    "porter",
    "portuguese",
    "romanian",
    "russian",
    "serbian",
    "sesotho",
    "spanish",
    "swedish",
    "tamil",
    "turkish",
    "yiddish",
    "none",
)

# Language of a store if no bundle sets one.
DEFAULT_LANGUAGE, NO_LANGUAGE = "english", "none"


def check_language(name: str) -> str:
    """Return the language in lower case. Raises ValueError: it is unknown."""
    if name.lower() not in LANGUAGES:
        raise ValueError(f"unknown language {name!r}; known: {', '.join(LANGUAGES)}")
    return name.lower()


Language = Annotated[str, AfterValidator(check_language)]
