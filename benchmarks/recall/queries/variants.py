"""Other forms of a collection's questions, as users ask them. Equal questions get equal forms."""

import re
from collections.abc import Callable
from collections.abc import Collection as Names
from dataclasses import replace
from itertools import cycle
from random import Random

from benchmarks.recall.collection import Collection, Corpus

CHAT = """
    Hey there, hope you are having a great week so far!
    I just got back from a long walk and finally have a minute to sit down.
    It has been pretty hectic on my side lately, to be honest.
    Thanks again for helping me out the other day, I really appreciate it.
    So I was thinking about this on the train this morning.
    My coffee is getting cold while I type this.
    Anyway, there is something I wanted to check with you.
    Sorry if this is a bit random, I have a lot on my mind.
    The weather has been awful and I have been stuck inside all weekend.
    I am trying to put together a few notes before dinner.
    You know how I always forget these things.
    Let me see if you still remember this one.
    Work has been busy and my boss keeps moving the deadline.
    I am going to the gym later, so a quick answer is fine.
    We talked about a lot of things recently and I may mix them up.
    Please keep it short, I am on my phone."""
SENTENCES = 4  # before a question
LETTERS = "etaoinshrdlu"  # the most common ones of English, for typos
_TYPED = re.compile(r"[a-z]{4,}(?=\W*$)")  # a word in lower case that may get a typo


def _long(question: str, names: Names[str]) -> str:
    """Return the question after four sentences that ask nothing."""
    sentences = [line.strip() for line in CHAT.strip().splitlines()]
    return " ".join([*Random(question).sample(sentences, SENTENCES), question])


def _with_typos(question: str, count: int) -> str:
    """Return the question with one typo in each of its longest words."""
    random, words = Random(f"{question}{count}"), question.split()
    places = [at for at, word in enumerate(words) if _TYPED.match(word)]
    for at in sorted(places, key=lambda at: -len(words[at]))[:count]:
        words[at] = _with_typo(words[at], random)
    return " ".join(words)


def _with_typo(word: str, random: Random) -> str:
    """Return the word with a letter inserted, deleted, replaced or swapped, not the first one."""
    letters = len(re.match("[a-z]+", word)[0])  # type: ignore[index]
    at, letter = random.randrange(1, letters - 1), random.choice(LETTERS)
    before, after = word[:at], word[at:]
    forms = (
        before + letter + after,
        before + after[1:],
        before + letter + after[1:],
        before + after[1] + after[0] + after[2:],
    )
    return random.choice(forms)


def _without_names(question: str, names: Names[str]) -> str:
    """Return the question with `I` and `my` in place of the speakers."""
    for name in names:
        question = re.sub(rf"\b{re.escape(name)}['\u2019]s\b", "my", question)
        question = re.sub(rf"\b{re.escape(name)}\b", "I", question)
    return question


def _shorten_names(question: str, names: Names[str]) -> str:
    """Return the question with the first three letters of the speakers."""
    for name in names:
        question = re.sub(rf"\b{re.escape(name)}\b", name[:3], question)
    return question


# name -> (question, names of speakers) -> question
FORMS: dict[str, Callable[[str, Names[str]], str]] = {
    "long": _long,
    "typo": lambda question, names: _with_typos(question, 1),
    "typos": lambda question, names: _with_typos(question, 2),
    "nameless": _without_names,
    "shortnames": _shorten_names,
}
POOLED, SURNAMES = "pooled", "surnames"
VARIANTS = (*FORMS, POOLED, SURNAMES)
FAMILIES = ("Brown", "Novak", "Rossi", "Sato", "Osei", "Lindgren", "Haddad", "Silva")


def change(collection: Collection, variant: str) -> Collection:
    """Return the collection with another form of its questions, or of its documents.

    That is all documents in one store, or speakers with a surname, which questions do not use.
    Without a variant, returns it unchanged.
    """
    if not variant:
        return collection
    if variant == POOLED:
        return replace(collection, corpora=[_pool(collection)])
    if variant == SURNAMES:
        return replace(collection, corpora=list(map(_with_surnames, collection.corpora)))
    corpora = [_reworded(corpus, FORMS[variant]) for corpus in collection.corpora]
    return replace(collection, corpora=corpora)


def _reworded(corpus: Corpus, form: Callable[[str, Names[str]], str]) -> Corpus:
    names = sorted({document.source for document in corpus.documents} - {""})
    questions = [one._replace(text=form(one.text, names)) for one in corpus.questions]
    return replace(corpus, questions=questions)


def _with_surnames(corpus: Corpus) -> Corpus:
    names = sorted({document.source for document in corpus.documents} - {""})
    whole = dict(zip(names, map(" ".join, zip(names, cycle(FAMILIES), strict=False)), strict=True))
    documents = [one._replace(source=whole.get(one.source, "")) for one in corpus.documents]
    return replace(corpus, documents=documents)


def _pool(collection: Collection) -> Corpus:
    documents, questions = [], []
    for number, corpus in enumerate(collection.corpora):
        documents += [
            one._replace(id=f"{number}:{one.id}", thread=one.thread and f"{number}:{one.thread}")
            for one in corpus.documents
        ]
        questions += [
            one._replace(gold={f"{number}:{id_}": worth for id_, worth in one.gold.items()})
            for one in corpus.questions
        ]
    return Corpus(documents, questions)
