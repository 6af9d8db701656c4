"""Similarity of two short facts: the same, related or different.

The package reads no store and calls no embedder. `similarity.compare` runs the steps of
docs/deduplication.md:

    step  module       result
    1     tokenizer    one form of letters, marks and spaces
    2     parser       content words in order, and the features of function words
            tokenizer    words, numbers and signs
            numbers      numbers, times and dates in one form
            phrases      idioms as plain words
    3, 6  similarity   the score
    4     alignment    pairs of words, and words without a partner
    5     rules        reasons why two facts differ
            roles        who does what to whom

similarity also finds facts that a later line of an entry contradicts.

Word knowledge: irregular reads words/*.txt and knows irregular forms. lexicon knows synonyms and
contrasts, and the grammar of function words.
"""
