"""Golden questions: searches with the results that they must, may or must not find."""
