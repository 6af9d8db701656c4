"""How alike two short facts are: the same, related, or two things. Nothing here reads or writes
anything but its own lists.

What a pair goes through, with the steps of docs/deduplication.md:

    alike.py           all of it, and near texts (3)
      plain.py         1  the text in one form of letters, marks and spaces
      reading.py       2  its words in order, and what the small ones say of them
        pieces.py         words, numbers and signs
        figures.py        numbers, times and dates in one form
        unsaid.py         words that may go
      matching.py      4  which words are partners, and which are left over
      guard.py         5  why they are two facts
        order.py          who does what to whom
          voice.py        also in the passive
          answers.py      what is on, and what is off
        since.py          what began, and goes on since
      curves.py        6  the score

What is known of words, for all of these: lists.py reads words/*.txt, forms.py knows irregular
forms, inflection.py the forms of
a verb, phrases.py turns of speech, lexicon.py meanings and opposites, and grammar.py the small
words.
"""
