"""Calls wait only for their vectors."""

import asyncio
from collections.abc import Sequence

import pytest

from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from memrelay.worker.run.embedding_prefetch import EmbeddingPrefetch
from memrelay.worker.run.inputs import Entry
from tests.support.bundles import make_bundle, make_memory


class Broken(QuestionEmbedder):
    """Raises an unexpected error."""

    def _prepare(self, texts: Sequence[str], fingerprint: str) -> None:
        raise MemoryError("no room")


def test_calls_run_without_vectors_after_an_unexpected_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bundle = check(make_bundle("p", make_memory("write"))).bundle
    assert bundle is not None
    call = Entry(
        "1-1",
        Plan(bundle),
        [b"op", b"entries.create", b"data", b'{"content": "tea"}', b"reply", b""],
    )

    async def main() -> list[Entry]:
        questions, wanted = Broken(LazyEmbedder(EmbeddingOptions("wordllama"))), asyncio.Event()
        prefetch = EmbeddingPrefetch(questions, wanted)
        assert prefetch.sift([call]) == []
        await asyncio.wait_for(wanted.wait(), 10)
        questions.close()
        return prefetch.take()

    assert asyncio.run(main()) == [call]
    (record,) = caplog.records
    assert (record.msg, str(record.exc_info and record.exc_info[1])) == (
        "calls_without_vectors",
        "no room",
    )
