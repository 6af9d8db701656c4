"""Turns that end by asking count less: what was asked for stands where it was answered, and a question has its words too.

Measured (docs/search-quality.md): of LoCoMo's turns a quarter end with a question, of those that answer one an eighth.
"""
import apsw
import numpy as np

from memory.recall.layout import Layout, Places
from memory.recall.scene import Floats
from memory.sqlite.contents import contents

NAME = "asks"
CLOSING = 0.25     # how much less a turn counts that is a question and nothing else; 0.2 to 0.3 is one plateau
LONGEST = 4096     # bytes of a turn that is looked at; of a longer one, its last question is little
MARKS = "?\uff1f\u061f"   # Latin's, the wide one of Chinese and Japanese, Arabic's
ENDS = ". ", "! ", "? ", "\n", "\u3002", "\uff01", *MARKS[1:]   # of the sentence before


def asking(connection: apsw.Connection, layout: Layout, places: Places) -> Floats:
    """From 1, for what does not end by asking and for what is no turn, down to 1 - CLOSING."""
    factors = np.ones(len(places), np.float32)
    turns = np.flatnonzero(layout.source[places] >= 0)
    texts = contents(connection, layout.row[places[turns]], LONGEST)
    factors[turns] -= np.float32(CLOSING) * np.array([closing_question(text) for text in texts], np.float32)
    return factors


def closing_question(text: str) -> float:
    """The share of a text that the question has with which it ends: 0 where it ends otherwise, 1 where it is no more."""
    text = text.strip()
    if not text.endswith(tuple(MARKS)):
        return 0.0
    before = text.rstrip(MARKS)
    begins = max((at + len(end) for end in ENDS if (at := before.rfind(end)) >= 0), default=0)
    return (len(text) - begins) / len(text)
