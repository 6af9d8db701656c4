"""Errors in the embedding thread reach the caller."""

import asyncio
from collections.abc import Iterator

import pytest

from memrelay.memory.errors import EmbeddingFault, StoreBusy, TextRejected
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.worker.shared import MAX_REASON, EmbeddingThread


@pytest.fixture
def thread() -> Iterator[EmbeddingThread]:
    thread = EmbeddingThread(EmbeddingOptions("none"))
    yield thread
    thread.close()


@pytest.mark.parametrize(
    "error", [MemoryError("no room"), RuntimeError("x" * 10_000), KeyError("data")]
)
def test_a_library_error_becomes_an_embedding_fault(
    thread: EmbeddingThread, error: Exception
) -> None:
    def work() -> None:
        raise error

    with pytest.raises(
        EmbeddingFault, match=f"the embedder fails: {type(error).__name__}"
    ) as caught:
        asyncio.run(thread.run(work))

    assert caught.value.__cause__ is error
    assert len(str(caught.value)) <= MAX_REASON


@pytest.mark.parametrize("error", [TextRejected("too long"), StoreBusy("locked")])
def test_known_errors_are_raised_unchanged(thread: EmbeddingThread, error: Exception) -> None:
    def work() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        asyncio.run(thread.run(work))

    assert caught.value is error


def test_closing_the_thread_cancels_waiting_work(thread: EmbeddingThread) -> None:
    async def give_up() -> None:
        async with asyncio.timeout(0.01):
            await thread.run(lambda: asyncio.run(asyncio.sleep(0.2)))

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())
