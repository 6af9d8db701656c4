"""The small words of a sentence: what they say of it, where they say anything, or that they may go."""
from memory.recall.stopwords import STOP_WORDS


def _one_each(lines: dict[str, str]) -> dict[str, str]:
    return {word: said for said, words in lines.items() for word in words.split()}


NEGATIONS = frozenset("""
    not no never none nobody nothing nowhere neither nor hardly barely scarcely lack lacks lacking
    nicht kein keine keinen keinem keiner keines nie niemals nichts niemand pas jamais rien aucun aucune nunca nadie nada ningún
    ninguno ninguna jamás non mai nessuno nessuna niente nulla não ninguém nenhum nenhuma niet geen nooit niets niemand не нет
    никогда ни ничего никто 不 没 沒 无 無 非 未 別 别""".split())

MODES = _one_each({
    "must": "must shall muss müssen doit debe deve moet",
    "should": "should ought soll sollte devrait debería dovrebbe",
    "may": "may might could possibly maybe perhaps probably likely apparently seems",
    "can": "can kann können peut puede può kan",
    "would": "would", "please": "please",
})

PERSONS = _one_each({
    "i": "i me my mine myself",
    "we": "we us our ours ourselves",
    "he": "he him his himself",
    "she": "she her hers herself",
    "they": "they their them theirs themselves",
})

SIGNALS = _one_each({
    "without": "without ohne sans sin senza sem zonder",
    "only": "only exclusively solely merely nur seulement solo só alleen",
    "except": "except excluding besides apart",
    "unless": "unless",
    "if": "if provided",
    "or": "or oder ou",
    "before": "before", "after": "after", "until": "until till", "since": "since",
    "below": "below", "at-most": "at-most", "at-least": "at-least",
    "almost": "almost nearly",
    "few": "few", "most": "most", "some": "some several", "half": "half", "many": "many much", "both": "both",
    "usually": "usually normally typically generally mostly", "often": "often frequently regularly",
    "sometimes": "sometimes occasionally", "rarely": "rarely seldom",
    "past": "formerly previously once", "still": "yet",
    "question": "?", "<": "< \u2264", ">": "> \u2265", "=": "= \u2260",
})

MARKERS = frozenset("""
    to from in on at by with without for of over under above below than into onto about as before after until till since during
    against between through via against behind beside near toward towards per not no nor but except through
    von nach mit für zu bei aus auf unter gegen de à en por para con a da di per van naar met voor""".split())

AUXILIARIES = _one_each({
    "past": "was were did",
    "perfect": "has have had having",
    "now": "is are am does do being",
    "will": "will gonna",
    "": "be been done doing",
})

ARTICLES = frozenset("a an the this that these those its it".split())

JOINS = frozenset("and or but und oder aber et ou mais y o pero e ma en of maar".split()) - {"of", "o", "e", "y"}

DROPPED = frozenset("""
    a an the this that these those it its itself there here who whom whose which what you your yours yourself and also too then so
    very really quite just simply actually already currently now presently well all any every each everything anyone everyone
    always own been et und y e en und auch que ne some such oh okay ok yes together while when where whenever either because but
    remember note reminder""".split()) - {"well", "everything", "anyone", "everyone"}

LIGHT = frozenset("""
    own possess get got make take use go come put give keep set base locate situate thing kind type way time
    happen exist occur suffer originally department format""".split())

STATES = frozenset("""
    speak write build start drink wear last cost weigh contain include employ measure lie stand sit belong run eat pay hold""".split())

def language_of(words: frozenset[str]) -> str:
    """The language that most of the small words are of; English where that is not clear."""
    most = max(STOP_WORDS, key=lambda language: len(words & STOP_WORDS[language]))
    return most if len(words & STOP_WORDS[most]) > len(words & STOP_WORDS["english"]) else "english"
