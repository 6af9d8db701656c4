"""Recognizes questions without content, such as `what do you know about me?`."""

from memrelay.memory.search.text.stopwords import STOP_WORDS
from memrelay.memory.search.text.words import plain_tokens

# Words with which a question asks for anything: what do you know about me?
ASKING = frozenset(
    (
        *("know", "known", "knows", "remember", "remembered", "recall", "tell", "say", "said"),
        *("learned", "learnt", "stored", "saved", "user", "everything", "anything", "something"),
        *("memory", "memories", "fact", "facts", "information", "info", "far", "please", "us"),
        *("lately", "recently", "let", "give", "show", "list", "weisst", "weißt", "sais", "sabes"),
    )
)


def has_content(query: str, language: str) -> bool:
    """Return whether a question has a word besides stop words and words for knowing."""
    words = plain_tokens(query)
    stop_words = STOP_WORDS["english"] | STOP_WORDS.get(language, frozenset())
    return not words or any(word not in ASKING and word not in stop_words for word in words)
