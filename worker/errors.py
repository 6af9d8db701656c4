"""Why an input is given up.

CascadeFault
├── TooDeep    messages gave rise to messages, further than the hop count allows
└── TooMany    one input gave rise to too many messages
"""


class CascadeFault(Exception):
    """An input that leads too far; it goes to the dead letters."""


class TooDeep(CascadeFault):
    """Agents answer each other, or one itself, without an end."""


class TooMany(CascadeFault):
    """Each message gives rise to several."""
