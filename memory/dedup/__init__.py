"""Similarity of two short facts: the same, related or different.

The package reads no store and calls no embedder. `similarity.compare` runs these steps of
docs/deduplication.md:

1. normalize: one form of letters, marks and spaces.
2. parser: content words in order, and the features that function words express. It uses tokenizer
   (words, numbers, signs), numbers (numbers, times, dates) and phrases (idioms).
4. alignment: pairs of words, and words without a partner.
5. rules: reasons why two facts differ. roles covers who does what to whom.
6. similarity: the score. It also handles step 3, texts that are nearly equal.

Word knowledge: irregular reads words/*.txt and knows irregular forms. lexicon knows synonyms and
contrasts. function_words knows the grammar of small words.
"""
