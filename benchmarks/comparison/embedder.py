"""The embedder of all peers: the built-in one of Memrelay, as a function and as a server.

    python -m benchmarks.comparison.embedder

serves `/v1/embeddings` on a free loopback port, for peers that take no function, and prints the
port. It needs numpy and the packages of the extra `local`.
"""

import json
from collections.abc import Sequence
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.local import load
from memrelay.memory.search.embedding.onnx_embedder import OnnxEmbedder


@cache
def load_embedder() -> OnnxEmbedder:
    """Return the embedder of this process, with the default number of threads."""
    return load(EmbeddingOptions(model="local"))


class EmbeddingServer(ThreadingHTTPServer):
    """Answers requests in the form of OpenAI's API."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._embedder = load_embedder()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per text."""
        return self._embedder.embed(texts)


class _Handler(BaseHTTPRequestHandler):
    server: EmbeddingServer
    protocol_version = "HTTP/1.1"
    # One packet per answer: headers and body apart would wait for the client's acknowledgment.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answer with the vectors of `input`, a text or a list of texts."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
        body = json.dumps(_make_answer(self.server.embed(texts))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def _make_answer(rows: NDArray[np.float32]) -> dict[str, Any]:
    data = [
        {"object": "embedding", "index": index, "embedding": row.tolist()}
        for index, row in enumerate(rows)
    ]
    usage = {"prompt_tokens": 0, "total_tokens": 0}
    return {"object": "list", "model": "minilm", "data": data, "usage": usage}


if __name__ == "__main__":
    server = EmbeddingServer()
    print(server.server_port, flush=True)
    server.serve_forever()
