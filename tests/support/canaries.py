"""Synthetic secrets and personal data in the formats of their issuers. None is real.

They are put together from parts, so that no file of the project has the form of a secret.
"""

from collections.abc import Callable, Iterator
from random import Random
from string import ascii_letters, ascii_uppercase, digits, hexdigits
from typing import NamedTuple

WORD = ascii_letters + digits
URL = WORD + "-_"
HEX = hexdigits[:16]
BASE32 = ascii_uppercase + "234567"
Make = Callable[[Random], str]


class Canary(NamedTuple):
    """A text that holds a value which the pattern of that name finds."""

    name: str
    value: str
    text: str


def make_canaries(count: int, seed: int = 0) -> Iterator[Canary]:
    """Yield canaries, all formats in turn."""
    random, names = Random(seed), [*MAKERS]
    for number in range(count):
        yield make_canary(names[number % len(names)], random)


def make_canary(name: str, random: Random) -> Canary:
    """Return a canary of a format."""
    before, make, after = MAKERS[name]
    value = make(random)
    return Canary(name, value, f"{before}{value}{after}")


def _join(*parts: str | tuple[str, int]) -> Make:
    """Return a maker of a value from texts, and from (alphabet, length) of random ones."""

    def make(random: Random) -> str:
        return "".join(
            one if isinstance(one, str) else "".join(random.choices(one[0], k=one[1]))
            for one in parts
        )

    return make


def _make_card(random: Random) -> str:
    prefix = random.choice(("4", "51", "2221", "6011", "3530"))
    body = (prefix + "".join(random.choices(digits, k=15)))[:15]
    doubled = (int(one) * (2 - at % 2) for at, one in enumerate(body[::-1]))
    return f"{body}{-sum(sum(divmod(one, 10)) for one in doubled) % 10}"


def _make_iban(random: Random) -> str:
    account = "".join(random.choices(digits, k=18))
    return f"DE{98 - int(f'{account}131400') % 97:02d}{account}"


def _make_phone(random: Random) -> str:
    return f"+49 30 {random.randint(1000, 9999)} {random.randint(1000, 9999)}"


def _make_ssn(random: Random) -> str:
    return f"{random.randint(101, 665)}-{random.randint(10, 99)}-{random.randint(1000, 9999)}"


PEM, ARMOR = "RSA PRIVATE", " KEY-----"
RANDOM = _join("q7", (WORD, 18), "Z4")
JWT = _join("ey", "J", (URL, 20), ".ey", "J", (URL, 40), ".", (URL, 43))
LINE = (WORD + "+/", 64)
# By pattern: the text before, the value, and the text after.
MAKERS: dict[str, tuple[str, Make, str]] = {
    "private_key": (
        "key:\n",
        _join("-----BEGIN ", PEM, ARMOR, "\n", LINE, "\n", LINE, "\n-----END ", PEM, ARMOR),
        "\nend",
    ),
    "aws_access_key_id": ("id ", _join("AK", "IA", (BASE32, 16)), "."),
    "aws_secret_access_key": ("aws_secret_access_key = ", _join((WORD + "/+", 40)), " "),
    "github_token": ("use ", _join("gh", "p_", (WORD, 36)), " now"),
    "github_fine_grained_token": ("", _join("github", "_pat_", (WORD, 22), "_", (WORD, 59)), " "),
    "gitlab_token": ("(", _join("gl", "pat-", (WORD, 20)), ")"),
    "slack_token": ("bot ", _join("xo", "xb-", (digits, 12), "-", (WORD, 24)), " "),
    "slack_webhook": (
        "post to ",
        _join(
            "https://hooks.", "slack.com/services/", (BASE32, 9), "/", (BASE32, 11), "/", (WORD, 24)
        ),
        "",
    ),
    "discord_webhook": (
        "",
        _join("https://", "discord.com/api/webhooks/", (digits, 18), "/", (URL, 68)),
        " end",
    ),
    "discord_token": ("", _join("M", (WORD, 24), ".", (WORD, 6), ".", (WORD, 30)), " x"),
    "telegram_bot_token": ("", _join(("123456789", 9), ":A", "A", (WORD, 33)), " x"),
    "stripe_key": ("", _join("sk", "_live_", (WORD, 24)), " x"),
    "webhook_signing_secret": ("", _join("wh", "sec_", (WORD, 32)), " x"),
    "square_token": ("", _join("sq0", "atp-", (WORD, 22)), " x"),
    "shopify_token": ("", _join("shp", "at_", (HEX, 32)), " x"),
    "anthropic_key": ("", _join("sk-", "ant-api03-", (WORD, 80)), " x"),
    "openai_key": ("", _join("sk-", "proj-", (WORD, 60)), " x"),
    "openrouter_key": ("", _join("sk-", "or-v1-", (HEX, 64)), " x"),
    "google_api_key": ("", _join("AI", "za", (WORD, 35)), " x"),
    "google_client_secret": ("", _join("GOC", "SPX-", (WORD, 28)), " x"),
    "google_oauth_token": ("", _join("ya", "29.", (WORD, 60)), " x"),
    "azure_storage_key": ("AccountName=a;AccountKey=", _join((WORD, 86), "=="), ";x"),
    "azure_client_secret": ("secret ", _join((WORD, 3), "8Q", "~", (WORD, 34)), " x"),
    "huggingface_token": ("", _join("h", "f_", (ascii_letters, 34)), " x"),
    "groq_key": ("", _join("gs", "k_", (WORD, 52)), " x"),
    "xai_key": ("", _join("xa", "i-", (WORD, 80)), " x"),
    "replicate_token": ("", _join("r8", "_", (WORD, 37)), " x"),
    "npm_token": ("", _join("np", "m_", (WORD, 36)), " x"),
    "pypi_token": ("", _join("py", "pi-AgE", (WORD, 60)), " x"),
    "docker_token": ("", _join("dck", "r_pat_", (WORD, 27)), " x"),
    "digitalocean_token": ("", _join("do", "p_v1_", (HEX, 64)), " x"),
    "databricks_token": ("", _join("da", "pi", (HEX, 32)), " x"),
    "sendgrid_key": ("", _join("S", "G.", (WORD, 22), ".", (WORD, 43)), " x"),
    "mailgun_key": ("", _join("ke", "y-", (HEX, 32)), " x"),
    "mailchimp_key": ("", _join((HEX, 32), "-u", "s12"), " x"),
    "twilio_key": ("", _join("S", "K", (HEX, 32)), " x"),
    "postman_key": ("", _join("PM", "AK-", (HEX, 24), "-", (HEX, 34)), " x"),
    "new_relic_key": ("", _join("NR", "AK-", (ascii_uppercase, 27)), " x"),
    "grafana_token": ("", _join("gl", "sa_", (WORD, 32), "_", (HEX, 8)), " x"),
    "vault_token": ("", _join("hv", "s.", (WORD, 40)), " x"),
    "atlassian_token": ("", _join("ATA", "TT3", (WORD, 60)), " x"),
    "linear_key": ("", _join("lin", "_api_", (WORD, 40)), " x"),
    "notion_token": ("", _join("nt", "n_", (WORD, 46)), " x"),
    "airtable_token": ("", _join("pa", "t", (WORD, 14), ".", (HEX, 64)), " x"),
    "figma_token": ("", _join("fig", "d_", (WORD, 40)), " x"),
    "supabase_key": ("", _join("sb", "p_", (HEX, 40)), " x"),
    "doppler_token": ("", _join("dp", ".pt.", (WORD, 43)), " x"),
    "memrelay_key": ("", _join("m", "r_", (HEX, 12), "_", (HEX, 64)), " x"),
    "jwt": ("token ", JWT, " x"),
    "bearer_token": ("Authorization: Bearer ", RANDOM, " x"),
    "url_password": ("postgres://app:", RANDOM, "@db.example.org/x"),
    "assigned_secret": ("db_password = ", RANDOM, " x"),
    "credit_card": ("card ", _make_card, " x"),
    "iban": ("pay to ", _make_iban, " x"),
    "email": ("write to ", _join(("abcdef", 8), ".", ("klmnop", 6), "@mail.example.org"), " x"),
    "phone": ("ring ", _make_phone, " please"),
    "us_ssn": ("number ", _make_ssn, " x"),
    "uk_nino": ("number ", _join("AB", (digits, 6), "C"), " x"),
}
