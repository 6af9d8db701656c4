"""Rate limiting: one token bucket per caller."""

import time
from collections.abc import Awaitable, Callable, Hashable
from ipaddress import ip_address

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from memrelay.web.server.errors import TooManyRequests
from memrelay.web.server.services import get_services

# The number of buckets kept. A dropped bucket counts as full.
MAX_CALLERS = 10_000
# Returns the caller's identity, or None to skip the limit.
Identify = Callable[[web.Request], Awaitable[Hashable | None]]


class TokenBuckets:
    """A bucket per caller that gains `rate` tokens per second, up to `burst`.

    `clock` returns seconds.
    """

    def __init__(
        self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._clock = rate, float(burst), clock
        # caller -> (tokens, time of the last update), least recently used first
        self._levels: dict[Hashable, tuple[float, float]] = {}

    def __len__(self) -> int:
        return len(self._levels)

    def take(self, caller: Hashable) -> float:
        """Take a token and return 0.0, or return the seconds until one is available."""
        now = self._clock()
        tokens, since = self._levels.pop(caller, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        wait_s = 0.0 if tokens >= 1 else (1 - tokens) / self._rate
        self._levels[caller] = (tokens if wait_s else tokens - 1, now)
        if len(self._levels) > MAX_CALLERS:
            del self._levels[next(iter(self._levels))]
        return wait_s


def limit_rate(rate: float, burst: int, identify: Identify) -> Middleware:
    """Return the middleware. It raises TooManyRequests."""
    buckets = TokenBuckets(rate, burst)

    @web.middleware
    async def check_rate(request: web.Request, handler: Handler) -> web.StreamResponse:
        caller = await identify(request)
        wait_s = 0.0 if caller is None else buckets.take(caller)
        if wait_s:
            raise TooManyRequests(
                f"each caller may send {rate:g} requests per second (web.rate) in bursts of up to "
                f"{burst} (web.burst); retry in {wait_s:.3f} s",
                wait_s,
            )
        return await handler(request)

    return check_rate


async def identify_caller(request: web.Request) -> Hashable | None:
    """Return the account of a key or a JWT, else the client's address, or None for loopback.

    Invalid keys share the bucket of their address, so guessing keys is limited too. All programs
    on this machine share one address, so loopback is not limited.
    """
    caller = await get_services(request).authorizer.get_caller_or_anonymous(request)
    if caller.account:
        return caller.account
    remote = request.remote
    return None if remote is None or ip_address(remote.partition("%")[0]).is_loopback else remote
