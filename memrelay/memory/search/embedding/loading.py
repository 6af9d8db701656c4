"""Loads the configured embedder at first use."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from typing import cast

from memrelay.installation import install_extra
from memrelay.memory.engine.models import load as load_module
from memrelay.memory.errors import EmbeddingFault, EmbeddingUnavailable
from memrelay.memory.search.embedding.built_in import PREFERRED, choose_model
from memrelay.memory.search.embedding.embedder import Embedder, EmbeddingOptions, Model

NO_EMBEDDER = (
    "there is no embedder: set `embedding.model` (MEMRELAY_EMBEDDING__MODEL) to auto; in a "
    f"program with open_store, {install_extra('bge')}"
)
# A server that failed is tried again after this time: the server or the key may have changed.
RETRY_AFTER_S = 30.0
# built-in models by the name in their fingerprint
BUILT_IN: dict[str, Model] = {one.name: one.setting for one in PREFERRED} | {
    "wordllama-l2-supercat": "wordllama"
}


class LazyEmbedder:
    """The embedder of a process. Thread-safe: callers wait until the first one has loaded it.

    `clock` returns seconds.
    """

    def __init__(
        self, options: EmbeddingOptions, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._options = replace(options, model=choose_model(options.model))
        self._is_auto, self._clock = options.model == "auto", clock
        self._loading, self._loading_other = Lock(), Lock()  # loading may take long
        self._loaded: Embedder | None = None
        self._fault: EmbeddingFault | None = None
        self._faulted_at = 0.0  # by the clock
        # by fingerprint; None if the model of that name has another fingerprint now
        self._others: dict[str, Embedder | None] = {}

    @property
    def configured(self) -> bool:
        """Whether an embedder is configured."""
        return self._options.model != "none"

    @property
    def name(self) -> str:
        """The configured embedder, without loading it."""
        chosen = self._options
        model = f"auto:{chosen.model}" if self._is_auto else chosen.model
        return " ".join((model, chosen.url, chosen.name))

    @property
    def loaded(self) -> Embedder | None:
        """The embedder, if it is loaded."""
        return self._loaded

    @property
    def fault(self) -> str:
        """The reason why loading failed; "" if it did not."""
        return str(self._fault or "")

    def get(self) -> Embedder:
        """Return the embedder, loading it if needed.

        A local model is tried once. An endpoint is tried again after `RETRY_AFTER_S`.
        Raises EmbeddingFault: when it cannot be loaded.
        """
        if self._loaded is not None:
            return self._loaded
        with self._loading:
            if self._fault is not None and not self._may_retry():
                raise EmbeddingFault(str(self._fault)) from self._fault
            if self._loaded is None:
                self._loaded, self._fault = self._load(), None
            return self._loaded

    def replaces(self, fingerprint: str) -> bool:
        """Return whether vectors with that fingerprint are replaced without a request.

        That is so for `auto`, if a better built-in model is installed than theirs. A worse one
        replaces nothing: workers with and without the better one may take turns.
        """
        settings = [one.setting for one in PREFERRED]
        if not self._is_auto or (theirs := _built_in_model(fingerprint)) not in settings:
            return False
        return settings.index(self._options.model) < settings.index(theirs)

    def ready(self, fingerprint: str) -> Embedder | None:
        """Return the embedder with that fingerprint, if it is loaded."""
        if self._loaded is not None and str(self._loaded.fingerprint) == fingerprint:
            return self._loaded
        return self._others.get(fingerprint)

    def of(self, fingerprint: str) -> Embedder:
        """Return the embedder with that fingerprint: the configured one, or another built-in one.

        Raises EmbeddingFault: when there is none, or it cannot be loaded.
        """
        found = self.ready(fingerprint) or self._other_built_in(fingerprint)
        if found is None:
            current = self.get()
            found = self.ready(fingerprint)
            if found is None:
                raise wrong_model_error(fingerprint, current)
        return found

    def of_store(self, fingerprint: str) -> Embedder:
        """Return the embedder for new texts of a store whose vectors have that fingerprint.

        That is another built-in one if they are of it, else the configured one. Raises
        EmbeddingFault: when it cannot be loaded.
        """
        return self._other_built_in(fingerprint) or self.get()

    def former(self, fingerprint: str) -> Embedder | None:
        """Return another built-in embedder with that fingerprint, if it can be loaded."""
        with suppress(EmbeddingFault):
            return self._other_built_in(fingerprint)
        return None

    def release(self, fingerprint: str) -> None:
        """Drop another built-in embedder. It is loaded again when it is needed."""
        with self._loading_other:
            self._others.pop(fingerprint, None)

    def _may_retry(self) -> bool:
        return (
            self._options.model == "endpoint" and self._clock() > self._faulted_at + RETRY_AFTER_S
        )

    def _other_built_in(self, fingerprint: str) -> Embedder | None:
        model = _built_in_model(fingerprint)
        if model is None or model == self._options.model:
            return None
        with self._loading_other:
            if fingerprint not in self._others:
                former = load(EmbeddingOptions(model))
                self._others[fingerprint] = (
                    former if str(former.fingerprint) == fingerprint else None
                )
            return self._others[fingerprint]

    def _load(self) -> Embedder:
        if not self.configured:
            raise EmbeddingFault(NO_EMBEDDER)
        try:
            return load(self._options)
        except EmbeddingUnavailable:
            raise
        except EmbeddingFault as fault:
            self._fault, self._faulted_at = fault, self._clock()
            raise


def _built_in_model(fingerprint: str) -> Model | None:
    return BUILT_IN.get(fingerprint.partition("/")[0])


def load(options: EmbeddingOptions) -> Embedder:
    """Load the embedder from the module with its model's name. Raises EmbeddingFault."""
    model = choose_model(options.model)
    # imported here: the libraries take 110 MB, which a worker without embeddings saves
    try:
        return cast(
            Embedder,
            load_module(f"memrelay.memory.search.embedding.{model}").load(options),
        )
    except ModuleNotFoundError as missing:
        raise EmbeddingFault(
            f"the embedder `{model}` lacks the package {missing.name}; {install_extra(model)}, or "
            "set `embedding.model` to none"
        ) from missing
    except OSError as error:
        raise EmbeddingFault(f"the embedder `{model}` cannot be loaded: {error}") from error


def wrong_model_error(fingerprint: str, embedder: Embedder) -> EmbeddingFault:
    """Return the error for vectors of another model, which are never compared."""
    return EmbeddingFault(
        f"the vectors of this store are of {fingerprint}, but the embedder is "
        f"{embedder.fingerprint}: run `memrelay reindex PIPELINE` to compute new vectors, or set "
        "`embedding.model` back"
    )
