"""The configured embedder, which is loaded when it is wanted for the first time."""

import importlib
import time
from collections.abc import Callable
from threading import Lock
from typing import cast

from memrelay.memory.embedding.embedder import Embedder, EmbeddingOptions, Model
from memrelay.memory.errors import EmbeddingFault, EmbeddingLater

NO_EMBEDDER = "there is no embedder: set `embedding.model` (MEMRELAY_EMBEDDING__MODEL) to local"
# after which a server that refused is asked again: it may be another by now, and so may the key
AGAIN_S = 30.0
BUILT_IN: dict[str, Model] = {
    "all-MiniLM-L6-v2-int8": "local",
    "wordllama-l2-supercat": "wordllama",
}  # by their names


class LazyEmbedder:
    """One for a process. May be asked by several threads at once: the others wait until the first
    has loaded it."""

    def __init__(
        self, options: EmbeddingOptions, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Loads nothing. `clock` gives seconds."""
        self._options, self._clock = options, clock
        self._loading, self._loading_former = Lock(), Lock()  # a server may take its time
        self._loaded: Embedder | None = None
        self._fault: EmbeddingFault | None = None
        self._faulted_at = 0.0  # by the clock
        self._former: dict[
            str, Embedder | None
        ] = {}  # by fingerprint; None where the one of that name is another by now

    @property
    def configured(self) -> bool:
        """Whether there is to be one."""
        return self._options.model != "none"

    @property
    def loaded(self) -> Embedder | None:
        """The embedder, if it was wanted before."""
        return self._loaded

    @property
    def fault(self) -> str:
        """Why it could not be loaded; "" where that was not tried, or succeeded."""
        return str(self._fault or "")

    def get(self) -> Embedder:
        """The embedder. Raises EmbeddingFault; what cannot be mended without a restart is tried
        once, a server now and then."""
        if self._loaded is not None:
            return self._loaded
        with self._loading:
            if self._fault is not None and not self._may_have_passed():
                raise EmbeddingFault(str(self._fault)) from self._fault
            if self._loaded is None:
                self._loaded, self._fault = self._load(), None
            return self._loaded

    def _may_have_passed(self) -> bool:
        return self._options.model == "endpoint" and self._clock() > self._faulted_at + AGAIN_S

    def ready(self, fingerprint: str) -> Embedder | None:
        """The embedder of vectors with that fingerprint, if it is loaded."""
        if self._loaded is not None and str(self._loaded.fingerprint) == fingerprint:
            return self._loaded
        return self._former.get(fingerprint)

    def of(self, fingerprint: str) -> Embedder:
        """The embedder of such vectors: this one, or one of ours that was configured before, which
        does not wait for this one.

        Raises EmbeddingFault.
        """
        found = self.ready(fingerprint) or self._former_one(fingerprint)
        if found is None:
            current = self.get()
            found = self.ready(fingerprint)
            if found is None:
                raise other_model(fingerprint, current)
        return found

    def _former_one(self, fingerprint: str) -> Embedder | None:
        model = BUILT_IN.get(fingerprint.partition("/")[0])
        if model in (None, self._options.model):
            return None
        with self._loading_former:
            if fingerprint not in self._former:
                former = load(EmbeddingOptions(model))
                self._former[fingerprint] = (
                    former if str(former.fingerprint) == fingerprint else None
                )
            return self._former[fingerprint]

    def _load(self) -> Embedder:
        if not self.configured:
            raise EmbeddingFault(NO_EMBEDDER)
        try:
            return load(self._options)
        except EmbeddingLater:
            raise
        except EmbeddingFault as fault:
            self._fault, self._faulted_at = fault, self._clock()
            raise


def load(options: EmbeddingOptions) -> Embedder:
    """A new embedder, from the file that has its model's name. Raises EmbeddingFault."""
    model = options.model
    # here and not at the top, for a worker that embeds nothing does without the libraries and their
    # 220 MB
    try:
        return cast(
            Embedder, importlib.import_module(f"memrelay.memory.embedding.{model}").load(options)
        )
    except ModuleNotFoundError as missing:
        raise EmbeddingFault(
            f"the embedder `{model}` lacks the package {missing.name}, which `.venv/bin/pip install -e "
            f"'.[{model}]'` installs; or set `embedding.model` to none"
        ) from missing
    except OSError as error:
        raise EmbeddingFault(f"the embedder `{model}` cannot be loaded: {error}") from error


def other_model(fingerprint: str, embedder: Embedder) -> EmbeddingFault:
    """Two embedders' vectors are never compared."""
    return EmbeddingFault(
        f"the vectors of this store are of {fingerprint}, and the embedder is {embedder.fingerprint}: "
        "`memrelay reindex PIPELINE` makes them anew, or set `embedding.model` back"
    )
