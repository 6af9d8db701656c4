"""Runs one trial with the systems of the checkout in the current folder, for process.py.

The input is a pickle of the name of a system and a list of corpora. The last line of the output is
a JSON object: the fields of a trial, with the hits of each question instead of its measures. It is
`null` if the checkout lacks the system.
"""

import json
import pickle
import sys
from dataclasses import asdict
from pathlib import Path

# This file may be in another checkout.
sys.path.insert(0, str(Path.cwd()))

from benchmarks.recall.collection import Collection
from benchmarks.recall.systems import SYSTEMS
from benchmarks.recall.trial import run

if __name__ == "__main__":
    name, corpora = pickle.load(sys.stdin.buffer)
    hits = Collection("", corpora, {"hits": lambda found, question, threads: found})
    print(json.dumps(asdict(run(hits, SYSTEMS[name])) if name in SYSTEMS else None))
