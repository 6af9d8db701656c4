"""The patterns that policies find by name, written from the formats that the issuers publish.

All are RE2 patterns, so matching takes linear time. RE2 has no look-around: `value` is the group
with the value if more text around it must match.
"""

from collections.abc import Callable
from dataclasses import dataclass

from memrelay.memory.models.policies.patterns.checks import (
    has_iban_checksum,
    has_luhn_checksum,
    is_assigned_secret,
    is_national_insurance_number,
    is_no_placeholder,
    is_phone_number,
    is_social_security_number,
)

SECRETS, PERSONAL = "secrets", "personal"
ANY = -1
_KEY = "(?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"


@dataclass(frozen=True, slots=True)
class NamedPattern:
    """A pattern, and the set to which it belongs. `finds` is for the documentation."""

    name: str
    set: str
    finds: str
    source: str
    # The group with the value. ANY is the first group that matches.
    value: int = 0
    # Whether a value counts, such as by its check digit. None if all do.
    check: Callable[[str], bool] | None = None


def _secret(
    name: str,
    finds: str,
    source: str,
    value: int = 0,
    check: Callable[[str], bool] | None = None,
) -> NamedPattern:
    return NamedPattern(name, SECRETS, finds, source, value, check)


def _personal(
    name: str, finds: str, source: str, value: int = 0, check: Callable[[str], bool] | None = None
) -> NamedPattern:
    return NamedPattern(name, PERSONAL, finds, source, value, check)


PATTERNS = (
    _secret(
        "private_key",
        "a private key in PEM or PGP armor, to its end line",
        rf"-----BEGIN {_KEY}(?:[\s\S]*?-----END {_KEY}|[A-Za-z0-9+/=\s:,-]*)",
    ),
    _secret("aws_access_key_id", "an access key id of AWS", r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
    _secret(
        "aws_secret_access_key",
        "a secret access key of AWS after its name",
        r"(?i)aws_?(?:secret)?_?(?:access)?_?(?:secret)?_?key[\"']?\s{0,3}[=:]{1,2}\s{0,3}[\"']?"
        r"([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)",
        1,
    ),
    _secret("github_token", "a token of GitHub", r"\bgh[pousr]_[A-Za-z0-9]{36,}\b"),
    _secret(
        "github_fine_grained_token",
        "a fine-grained token of GitHub",
        r"\bgithub_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}\b",
    ),
    _secret(
        "gitlab_token",
        "a personal, deploy, runner or trigger token of GitLab",
        r"\bgl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_.-]{20,}",
    ),
    _secret(
        "slack_token",
        "a bot, user, app or refresh token of Slack",
        r"\b(?:xox[abeoprs]-(?:[0-9]-)?|xapp-[0-9]-)[A-Za-z0-9-]{10,}",
    ),
    _secret(
        "slack_webhook",
        "the address of an incoming webhook of Slack",
        r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}",
    ),
    _secret(
        "discord_webhook",
        "the address of a webhook of Discord",
        r"https://(?:[a-z]+\.)?discord(?:app)?\.com/api/webhooks/[0-9]{17,20}/[A-Za-z0-9_-]{60,80}",
    ),
    _secret(
        "discord_token",
        "a bot token of Discord",
        r"\b[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}\b",
    ),
    _secret(
        "telegram_bot_token", "a bot token of Telegram", r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b"
    ),
    _secret(
        "stripe_key",
        "a secret or restricted key of Stripe, live or test",
        r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}\b",
    ),
    _secret(
        "webhook_signing_secret",
        "a signing secret of Standard Webhooks or Stripe",
        r"\bwhsec_[A-Za-z0-9+/]{24,}=*",
    ),
    _secret("square_token", "an access token of Square", r"\bsq0(?:atp|csp)-[A-Za-z0-9_-]{22,43}"),
    _secret(
        "shopify_token",
        "an access token or shared secret of Shopify",
        r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b",
    ),
    _secret(
        "anthropic_key",
        "a key of Anthropic",
        r"\bsk-ant-(?:api|admin|oat|ort|sid)[0-9]{2}-[A-Za-z0-9_-]{20,}",
    ),
    _secret(
        "openai_key",
        "a key of OpenAI",
        r"\bsk-(?:(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}"
        r"|[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}|[A-Za-z0-9]{48}\b)",
    ),
    _secret("openrouter_key", "a key of OpenRouter", r"\bsk-or-v1-[0-9a-f]{64}\b"),
    _secret("google_api_key", "an API key of Google", r"\bAIza[A-Za-z0-9_-]{35}"),
    _secret(
        "google_client_secret", "an OAuth client secret of Google", r"\bGOCSPX-[A-Za-z0-9_-]{28}"
    ),
    _secret("google_oauth_token", "an OAuth access token of Google", r"\bya29\.[A-Za-z0-9_-]{30,}"),
    _secret(
        "azure_storage_key",
        "an account key in a connection string of Azure",
        r"\b(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{43,86}={1,2})",
        1,
    ),
    _secret(
        "azure_client_secret",
        "a client secret of Microsoft Entra",
        r"(?:^|[^A-Za-z0-9_~.-])([A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34})"
        r"(?:[^A-Za-z0-9_~.-]|$)",
        1,
    ),
    _secret("huggingface_token", "a token of Hugging Face", r"\bhf_[A-Za-z]{34}\b"),
    _secret("groq_key", "a key of Groq", r"\bgsk_[A-Za-z0-9]{52}\b"),
    _secret("xai_key", "a key of xAI", r"\bxai-[A-Za-z0-9]{80}\b"),
    _secret("replicate_token", "a token of Replicate", r"\br8_[A-Za-z0-9]{37}\b"),
    _secret("npm_token", "a token of npm", r"\bnpm_[A-Za-z0-9]{36}\b"),
    _secret("pypi_token", "a token of PyPI", r"\bpypi-AgE[A-Za-z0-9_-]{50,}"),
    _secret("docker_token", "a token of Docker Hub", r"\bdckr_[po]at_[A-Za-z0-9_-]{27,}"),
    _secret("digitalocean_token", "a token of DigitalOcean", r"\bdo[oprt]_v1_[a-f0-9]{64}\b"),
    _secret("databricks_token", "a token of Databricks", r"\bdapi[0-9a-f]{32}(?:-[0-9])?\b"),
    _secret("sendgrid_key", "a key of SendGrid", r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}\b"),
    _secret("mailgun_key", "a key of Mailgun", r"\bkey-[0-9a-f]{32}\b"),
    _secret("mailchimp_key", "a key of Mailchimp", r"\b[0-9a-f]{32}-us[0-9]{1,2}\b"),
    _secret("twilio_key", "the SID of an API key of Twilio", r"\bSK[0-9a-f]{32}\b"),
    _secret("postman_key", "a key of Postman", r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}\b"),
    _secret("new_relic_key", "a user key of New Relic", r"\bNRAK-[A-Z0-9]{27}\b"),
    _secret(
        "grafana_token",
        "a service account or cloud token of Grafana",
        r"\b(?:glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}\b|glc_[A-Za-z0-9+/]{32,}=*)",
    ),
    _secret(
        "vault_token",
        "a service, batch or recovery token of HashiCorp Vault",
        r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}",
    ),
    _secret("atlassian_token", "an API token of Atlassian", r"\bATATT3[A-Za-z0-9_=-]{50,}"),
    _secret("linear_key", "an API key of Linear", r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,}\b"),
    _secret(
        "notion_token",
        "an integration token of Notion",
        r"\b(?:ntn_[A-Za-z0-9]{43,}|secret_[A-Za-z0-9]{43})\b",
    ),
    _secret("airtable_token", "a token of Airtable", r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b"),
    _secret("figma_token", "a token of Figma", r"\bfig[doru]{1,2}_[A-Za-z0-9_-]{40,}"),
    _secret(
        "supabase_key",
        "a secret key or access token of Supabase",
        r"\b(?:sb_secret_[A-Za-z0-9_-]{22,}|sbp_[a-f0-9]{40}\b)",
    ),
    _secret("doppler_token", "a token of Doppler", r"\bdp\.[a-z]{2,5}\.[A-Za-z0-9.]{40,}\b"),
    _secret("memrelay_key", "an API key of Memrelay", r"\bmr_[0-9a-f]{12}_[0-9a-f]{64}\b"),
    _secret(
        "jwt",
        "a signed JSON Web Token",
        r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}",
    ),
    _secret(
        "bearer_token",
        "a token in an Authorization header",
        r"(?i)\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:bearer|basic|token)\s{1,3}"
        r"([A-Za-z0-9._~+/-]{16,}=*)",
        1,
        is_no_placeholder,
    ),
    _secret(
        "url_password",
        "the password in an address such as postgres://user:password@host",
        r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:@/\"']*:([^\s:@/\"']{3,})@[A-Za-z0-9.\[-]",
        1,
        is_no_placeholder,
    ),
    _secret(
        "assigned_secret",
        "a random value after a name such as password, secret, token or api_key",
        r"(?i)(?:password|passwd|pwd|secret|api_?-?key|access_?-?key|token|credential)s?"
        r"[\"'\])]{0,3}[ \t]{0,3}(?:=|:|:=|=>|\bis\b)[ \t]{0,3}[\"'`]?"
        r"([A-Za-z0-9_.!@#%^&*~+/=-]{8,})",
        1,
        is_assigned_secret,
    ),
    _personal(
        "credit_card",
        "a card number of a known issuer, with its check digit (Luhn)",
        r"\b(?:[2-6][0-9]{3}(?:[ -]?[0-9]{4}){2,3}(?:[ -]?[0-9]{1,3})?"
        r"|3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5}|3[0689][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{4})\b",
        0,
        has_luhn_checksum,
    ),
    _personal(
        "iban",
        "an international bank account number, with its check digits",
        r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b",
        0,
        has_iban_checksum,
    ),
    _personal(
        "email",
        "an email address",
        r"\b[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@(?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){1,8}"
        r"[A-Za-z]{2,24}\b",
    ),
    _personal(
        "phone",
        "a phone number with a country code, or after a word such as phone, tel or mobile",
        r"(?i)(?:^|[^A-Za-z0-9+])(\+[1-9][0-9]{0,2}[ .-]?(?:\([0-9]{1,4}\)[ .-]?)?"
        r"[0-9]{1,4}(?:[ .-]?[0-9]{2,4}){2,4})\b"
        r"|\b(?:phone|tel|telephone|mobile|cell|call me at|call me on|fax|whatsapp)"
        r"[ .:#=-]{1,3}(?:number |no\.? |is )?(\(?[0-9]{2,5}\)?(?:[ ./-]?[0-9]{2,5}){1,4})\b",
        ANY,
        is_phone_number,
    ),
    _personal(
        "us_ssn",
        "a social security number of the USA",
        r"\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b",
        0,
        is_social_security_number,
    ),
    _personal(
        "uk_nino",
        "a national insurance number of the UK",
        r"\b[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-D]\b",
        0,
        is_national_insurance_number,
    ),
)
BY_NAME = {one.name: one for one in PATTERNS}
SETS = {name: tuple(one for one in PATTERNS if one.set == name) for name in (SECRETS, PERSONAL)}
