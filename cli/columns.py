"""How wide a text is on a terminal: letters of Chinese, Japanese and Korean and emoji take two
columns, marks on them none."""

from unicodedata import category, east_asian_width

from cli.escaping import escaped

NO_COLUMN = ("Mn", "Me", "Cf")  # marks that stand over the letter before, and joiners


def columns(text: str) -> int:
    """How many columns it takes once it is printed, as `print_line` escapes it."""
    return (
        len(text) if text.isascii() and text.isprintable() else sum(map(_columns_of, escaped(text)))
    )


def padded(text: str, width: int) -> str:
    """The text with spaces after it, up to so many columns."""
    return text + " " * (width - columns(text))


def _columns_of(sign: str) -> int:
    if category(sign) in NO_COLUMN:
        return 0
    return 2 if east_asian_width(sign) in "WF" else 1
