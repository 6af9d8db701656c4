"""Checks of found values that a pattern alone cannot make: check digits, ranges, randomness."""

import re
from collections import Counter
from math import log2

# The lengths of card numbers by the first digits, from ISO/IEC 7812 issuer ranges.
CARD_LENGTHS = (
    (re.compile("4"), (13, 16, 19)),
    (re.compile("5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), (16,)),
    (re.compile("3[47]"), (15,)),
    (re.compile("30[0-5]|3095|36|3[89]"), (14, 16)),
    (re.compile("6011|64[4-9]|65|622"), (16, 17, 18, 19)),
    (re.compile("35(?:2[89]|[3-8])"), (16, 17, 18, 19)),
    (re.compile("50|5[6-8]|6[0-9]"), (12, 13, 14, 15, 16, 17, 18, 19)),
)
# The shortest and the longest IBAN.
IBAN_LENGTHS = range(15, 35)
NOT_GIVEN = ("BG", "GB", "KN", "NK", "NT", "TN", "ZZ")
PHONE_DIGITS = range(7, 16)
# Placeholders for secrets in documentation: whole values, and parts of values.
PLACEHOLDER = re.compile(
    r"(?i)(?:pass(?:word|wd|phrase)?|pwd|secret|token|key|test|foo|bar|none|null|user)[0-9]*"
)
PART = re.compile(
    r"(?i)example|changeme|change_me|placeholder|redacted|dummy|(?:your|my)[-_]|x{4}|\.{3}|\*{3}"
    r"|123456"
)
# Words of a name in code: base64.b64decode, s3_credentials, version_2026.
IDENTIFIER = re.compile(
    r"_{0,9}[A-Za-z]+[0-9]{0,4}"
    r"(?:[_.-](?:[A-Za-z]+[0-9]{0,4}|[A-Za-z][0-9]{1,4}[A-Za-z]+|[0-9]{1,4})?)*"
)
# Characters of a value that are checked.
MOST_CHECKED = 200
# Bits per character. English words have about 2.5 to 3.5 in such short texts, random ones more.
RANDOM_BITS = 3.0


def has_luhn_checksum(value: str) -> bool:
    """Return whether a card number has a known issuer, its length and its check digit."""
    digits = re.sub("[ -]", "", value)
    if not any(which.match(digits) and len(digits) in lengths for which, lengths in CARD_LENGTHS):
        return False
    doubled = [int(one) * 2 for one in digits[-2::-2]]
    total = sum(map(int, digits[::-2])) + sum(one - 9 if one > 9 else one for one in doubled)
    return total % 10 == 0 and len(set(digits)) > 1


def has_iban_checksum(value: str) -> bool:
    """Return whether an IBAN has its check digits (ISO 13616, mod 97)."""
    compact = value.replace(" ", "")
    if len(compact) not in IBAN_LENGTHS:
        return False
    return int("".join(str(int(one, 36)) for one in compact[4:] + compact[:4])) % 97 == 1


def is_phone_number(value: str) -> bool:
    """Return whether a text has as many digits as a phone number (E.164: at most 15)."""
    digits = re.sub("[^0-9]", "", value)
    return len(digits) in PHONE_DIGITS and len(set(digits)) > 2


def is_social_security_number(value: str) -> bool:
    """Return whether the parts of a number are ones that the SSA gives out."""
    area, group, serial = value.split("-")
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


def is_national_insurance_number(value: str) -> bool:
    """Return whether a number begins with letters that HMRC gives out."""
    return value[:2] not in NOT_GIVEN


def is_no_placeholder(value: str) -> bool:
    """Return whether a value is not one of those that stand for a secret in documentation."""
    value = value[:MOST_CHECKED]
    is_placeholder = PLACEHOLDER.fullmatch(value) or PART.search(value)
    return not is_placeholder and len(set(value)) > 3 and value[0] not in "<${["


def is_assigned_secret(value: str) -> bool:
    """Return whether a value looks random: letters and digits, and no words."""
    value = value[:MOST_CHECKED]
    has_both = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    if not has_both or not is_no_placeholder(value):
        return False
    if IDENTIFIER.fullmatch(value):
        return False
    counts = Counter(value)
    bits = -sum(n / len(value) * log2(n / len(value)) for n in counts.values())
    return bits >= RANDOM_BITS
