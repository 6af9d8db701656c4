"""How often a caller may ask: a token bucket for each, filled at a steady rate up to a burst."""

import time
from collections.abc import Awaitable, Callable, Hashable
from ipaddress import ip_address

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from memrelay.web.server.errors import TooOften
from memrelay.web.server.services import services_of

MOST_CALLERS = 10_000  # whose buckets are kept; one that is full again is as good as none
Identify = Callable[[web.Request], Awaitable[Hashable | None]]  # who asks; None is not limited


class Buckets:
    """`rate` tokens a second for each caller, and at most `burst` of them."""

    def __init__(
        self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`clock` gives seconds."""
        self._rate, self._burst, self._clock = rate, float(burst), clock
        self._levels: dict[
            Hashable, tuple[float, float]
        ] = {}  # caller -> (tokens, when), the latest at the end

    def __len__(self) -> int:
        """How many callers are known."""
        return len(self._levels)

    def take(self, caller: Hashable) -> float:
        """Takes a token: 0.0, or in how many seconds there is one."""
        now = self._clock()
        tokens, since = self._levels.pop(caller, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        wait_s = 0.0 if tokens >= 1 else (1 - tokens) / self._rate
        self._levels[caller] = (tokens if wait_s else tokens - 1, now)
        if len(self._levels) > MOST_CALLERS:
            del self._levels[next(iter(self._levels))]  # who asked longest ago
        return wait_s


def limit_rate(rate: float, burst: int, identify: Identify) -> Middleware:
    """The middleware."""
    buckets = Buckets(rate, burst)

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        caller = await identify(request)
        wait_s = 0.0 if caller is None else buckets.take(caller)
        if wait_s:
            raise TooOften(
                f"{rate:g} requests a second (web.rate) and {burst} at once (web.burst) are taken of a caller; "
                f"come again in {wait_s:.3f} s",
                wait_s,
            )
        return await handler(request)

    return check


async def key_or_address(request: web.Request) -> Hashable | None:
    """The id of the key that was sent, where it is one, else the address: whoever tries keys does
    not get a bucket for each.

    None for this machine itself, all of whose programs have the same address.
    """
    key = (await services_of(request).authoriser.caller_or_stranger(request)).key
    if key:
        return key
    remote = request.remote
    return None if remote is None or ip_address(remote.partition("%")[0]).is_loopback else remote
