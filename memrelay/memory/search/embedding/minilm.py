"""The built-in model all-MiniLM-L6-v2 with int8 weights, without its libraries."""

import hashlib

from memrelay.memory.search.embedding.embedder import Fingerprint

NAME, DIMENSION = "all-MiniLM-L6-v2-int8", 384
# SHA-256 of model.onnx
WEIGHTS = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCABULARY = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"  # of vocab.txt
FINGERPRINT = Fingerprint(
    NAME, DIMENSION, hashlib.sha256(f"{WEIGHTS} {VOCABULARY}".encode()).hexdigest()
)
