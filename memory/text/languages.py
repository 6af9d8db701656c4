"""The languages whose stems are known, by the names that PyStemmer has; named here, so that it need
not be loaded."""

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

DEFAULT_LANGUAGE = "english"  # of a store of which no bundle says another


def check_language(name: str) -> str:
    """The language in lower case. Raises ValueError."""
    if name.lower() not in LANGUAGES:
        raise ValueError(f"there are no stems of {name!r}; known are {', '.join(LANGUAGES)}")
    return name.lower()


Language = Annotated[str, AfterValidator(check_language)]
