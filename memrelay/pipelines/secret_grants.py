"""The setting `secrets.env`: which pipelines may use which environment variables as secrets.

Separate from secret_references, because the settings must load without the check of bundles.
"""

import re
from collections.abc import Sequence

from memrelay.bus.keys import UID

GRANT = re.compile(rf"({UID.pattern}):([A-Za-z_][A-Za-z0-9_]*)")
# (uid, variable)
Grant = tuple[str, str]


def parse_grants(texts: Sequence[object]) -> tuple[Grant, ...]:
    """Return the grants of a list of `UID:NAME`. Raises ValueError."""
    forms = [GRANT.fullmatch(str(one)) for one in texts]
    if None in forms:
        raise ValueError("must be a list of UID:NAME, a pipeline and an environment variable")
    return tuple((form[1], form[2]) for form in forms if form is not None)
