"""Rate limiting: one token bucket per caller."""

import time
from collections.abc import Awaitable, Callable, Hashable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from memrelay.web.server.errors import TooManyRequests

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
