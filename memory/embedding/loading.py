"""The configured embedder, which is loaded when it is wanted for the first time."""
import importlib
from threading import Lock
from typing import cast

from memory.embedding.embedder import Embedder, EmbeddingOptions
from memory.errors import EmbeddingFault, EmbeddingLater


class LazyEmbedder:
    """One for a process. May be asked by several threads at once: the others wait until the first has loaded it."""

    def __init__(self, options: EmbeddingOptions) -> None:
        """Loads nothing."""
        self._options = options
        self._loading = Lock()
        self._loaded: Embedder | None = None
        self._fault: EmbeddingFault | None = None

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
        """The embedder. Raises EmbeddingFault; what cannot be mended without a restart is tried once."""
        if self._loaded is not None:
            return self._loaded
        with self._loading:
            if self._fault is not None:
                raise EmbeddingFault(str(self._fault)) from self._fault
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> Embedder:
        if not self.configured:
            raise EmbeddingFault("there is no embedder: set `embedding.model` (MEMRELAY_EMBEDDING__MODEL) to local")
        try:
            return load(self._options)
        except EmbeddingLater:
            raise
        except EmbeddingFault as fault:
            self._fault = fault
            raise


def load(options: EmbeddingOptions) -> Embedder:
    """A new embedder, from the file that has its model's name. Raises EmbeddingFault."""
    model = options.model
    try:   # here and not at the top, for a worker that embeds nothing does without the libraries and their 220 MB
        return cast(Embedder, importlib.import_module(f"memory.embedding.{model}").load(options))
    except ModuleNotFoundError as missing:
        raise EmbeddingFault(f"the embedder `{model}` lacks the package {missing.name}, which `.venv/bin/pip install -e "
                             f"'.[{model}]'` installs; or set `embedding.model` to none") from missing
    except OSError as error:
        raise EmbeddingFault(f"the embedder `{model}` cannot be loaded: {error}") from error
