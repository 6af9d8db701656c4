"""episodes.complete: ends an episode with its outcome."""

from memrelay.memory.agents.episodes import CompletedEpisode, EpisodeView, complete_episode
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@operation("episodes.complete", access="write", mutates=True, home="memories", any_store=True)
def complete(tx: Transaction, given: CompletedEpisode, context: Context) -> EpisodeView:
    """End an episode with its outcome. A log in the call replaces the earlier steps.

    Raises RecordNotFound: when the episode does not exist.
    """
    return complete_episode(tx, given, context)
