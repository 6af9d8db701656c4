"""The embedder `local`: all-MiniLM-L6-v2 with int8 weights."""

from memrelay.memory.search.embedding.built_in import MINILM
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.onnx_embedder import OnnxEmbedder, Running, mean_of_tokens
from memrelay.memory.search.embedding.onnx_lookup import look_up_first

RUNNING = Running(mean_of_tokens, texts_together=16, edit=look_up_first)  # more are not faster


def load(options: EmbeddingOptions) -> OnnxEmbedder:
    """Return the embedder: about 100 texts of one or two sentences per second and core."""
    return OnnxEmbedder(MINILM, RUNNING, options.threads)
