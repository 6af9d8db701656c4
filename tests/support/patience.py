"""Limits of clock time that a busy machine must not reach."""

from memrelay.memory.engine.time_limit import TimeLimit

SEARCH_S = 120.0


def allow_slow_searches() -> None:
    """Give the searches of this process, and of its forks, more time than users get.

    The first search loads numpy and the stemmer within its limit of one second, which is too little
    next to other programs. Tests of the limit set `TimeLimit.seconds`.
    """
    TimeLimit.__init__.__defaults__ = (SEARCH_S,)
