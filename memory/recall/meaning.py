"""What searches by meaning have beside their store: one for a worker. Loads nothing by itself."""

from typing import NamedTuple

from memory.embedding.questions import Questions
from memory.recall.pool import Pool


class Meaning(NamedTuple):
    """Who makes vectors of questions, and how much memory the stores' vectors may take."""

    questions: Questions
    matrices: Pool  # of each database thread
