"""Edit the graph of all-MiniLM-L6-v2, so that it scales only the word vectors that a text needs.

The model has word vectors of int8. Its graph makes floats of the complete table, and then looks up
the words of a text. onnxruntime computes the table when it loads the model, and keeps 47 MB. Here
the lookup comes first. The floats are the same.

The graph is edited as bytes, because the package onnx is larger than what this saves. The hash of
the file (built_in.py) guarantees the places below. The graph of bge looks up first by itself.
"""

# Bytes of the file. The graph is field 7 of the model, and begins after its length.
_HEADER, _GRAPH_AT, _GRAPH_END = slice(0, 23), 28, 22_928_613
# The nodes that make floats of the table, and the node that looks up the words.
_TABLE_NODES, _LOOKUP_NODE = slice(28, 364), slice(5_018, 5_120)
_QUANTIZED = "inner.embeddings.word_embeddings.weight_q"
_SCALES = "inner.embeddings.word_embeddings.weight_scale"
_WORDS, _RESULT = "input_ids", "embedding"
# The attribute `to` of Cast: float.
_TO_FLOAT = b"\x2a\x09\x0a\x02to\x18\x01\xa0\x01\x02"


def look_up_first(model: bytes) -> bytes:
    """Return the model with the lookup before the scaling."""
    nodes = (
        _node("Gather", [_QUANTIZED, _WORDS], "word_rows"),
        _node("Cast", ["word_rows"], "word_floats", _TO_FLOAT),
        _node("Gather", [_SCALES, _WORDS], "word_scales"),
        _node("Mul", ["word_floats", "word_scales"], _RESULT),
    )
    graph = (
        model[_GRAPH_AT : _TABLE_NODES.start],
        model[_TABLE_NODES.stop : _LOOKUP_NODE.start],
        *nodes,
        model[_LOOKUP_NODE.stop : _GRAPH_END],
    )
    start = _field_start(7, sum(map(len, graph)))
    return b"".join((model[_HEADER], start, *graph, model[_GRAPH_END:]))


def _node(operator: str, inputs: list[str], output: str, attributes: bytes = b"") -> bytes:
    """Return a node of the graph, its field 1."""
    body = b"".join(_text(1, name) for name in inputs)
    body += _text(2, output) + _text(4, operator) + attributes
    return _field_start(1, len(body)) + body


def _text(number: int, text: str) -> bytes:
    return _field_start(number, len(text)) + text.encode()


def _field_start(number: int, length: int) -> bytes:
    """Return the key and the length of a field of Protocol Buffers."""
    encoded = bytes([number << 3 | 2])
    while length > 127:
        encoded += bytes([length & 127 | 128])
        length >>= 7
    return encoded + bytes([length])
