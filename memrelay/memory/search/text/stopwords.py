"""Stop words by language: words too common to search for. Written as in the index, without accents
and apostrophes.
"""

from itertools import pairwise

_TEXT = {
    "english": """
        a about above after again against ain all am an and any are aren as at be because been
        before being below between both but by can could couldn d did didn do does doesn doing don
        down during each few for from further had hadn has hasn have haven having he her here hers
        herself him himself his how i if in into is isn it its itself just ll m ma me might mightn
        more most must mustn my myself needn no nor not now o of off on once only or other our ours
        ourselves out over own re s same shan she should shouldn so some such t than that the their
        theirs them themselves then there these they this those through to too under until up ve
        very was wasn we were weren what when where which while who whom why will with won would
        wouldn y you your yours yourself yourselves""",
    "german": """
        aber alle allem allen aller alles als also am an ander andere anderem anderen anderer
        anderes auch auf aus bei bin bis bist da damit dann das dass dazu dein deine deinem deinen
        deiner dem den denn der des dich die dies diese diesem diesen dieser dieses dir doch dort du
        durch ein eine einem einen einer eines er es etwas euch euer fur gegen habe haben hat hatte
        hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins ist ja jede
        jedem jeden jeder jedes kann kein keine keinem keinen keiner konnen man mein meine meinem
        meinen meiner mich mir mit muss nach nicht nichts noch nun nur ob oder ohne sehr sein seine
        seinem seinen seiner sich sie sind so soll sollte sondern um und uns unser unter viel vom
        von vor wahrend war waren warum was weg weil weiter welche welchem welchen welcher wenn wer
        werde werden wie wieder will wir wird wirst wo wollen wurde wurden zu zum zur zwar zwischen
        """,
    "french": """
        a ai as au aux avec avait c ce ceci cela ces cet cette comme d dans de des du elle elles en
        es est et eu eux fut il ils j je l la le les leur leurs lui m ma mais me meme mes moi mon n
        ne nos notre nous on ont ou par pas plus pour qu quand que quel quelle qui s sa sans se ses
        si son sont suis sur t ta te tes toi ton tu un une vos votre vous y etait etre""",
    "spanish": """
        a al algo ante antes como con contra cual cuando de del desde donde durante e el ella ellas
        ellos en entre era eran es esa ese eso esta estaba estan estas este esto estos fue ha han
        hasta hay la las le les lo los mas me mi mis mucho muy no nos nosotros o os otra otro para
        pero por porque que quien se ser si sin sobre son su sus tambien te tiene tu tus un una uno
        unos y ya yo""",
    "italian": """
        a ad agli ai al alla alle allo anche c che chi ci come con cui da dagli dai dal dalla dalle
        de degli dei del della delle dello di dove e ed era erano gli ha hai hanno ho i il in io l
        la le lei li lo loro lui ma mi mia mie mio ne negli nei nel nella nelle no noi non nostra
        nostro o per perche piu quale quando quella quello questa questo qui se sei si sia siamo
        sono su sua sue sugli sui sul sulla suo suoi ti tra tu tua tuo tutti tutto un una uno vi voi
        """,
    "portuguese": """
        a ao aos as ate com como da das de dela dele deles depois do dos e ela elas ele eles em
        entre era essa esse esta este eu foi foram ha isso isto ja la lhe mais mas me mesmo meu
        minha muito na nao nas nem no nos nossa nosso num numa o os ou para pela pelo por qual
        quando que quem sao se sem ser seu seus so sua suas tambem te tem tu um uma voce voces""",
    "dutch": """
        aan al alles als altijd ander ben bij daar dan dat de der deze die dit doch doen door dus
        een en er ge geen had heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je
        kan kon maar me meer men met mij mijn moet na naar niet niets nog nu of om omdat onder ons
        ook op over reeds te tegen toch toen tot u uit uw van veel voor want waren was wat we wel
        werd wezen wie wij wil worden zal ze zei zelf zich zij zijn zo zonder zou""",
}
# Other languages have none.
STOP_WORDS = {language: frozenset(text.split()) for language, text in _TEXT.items()}

# Chinese, Japanese and Korean are searched for by pairs of letters. A pair of these letters, or one
# of these pairs, is part of a pronoun, a question word, a particle or an ending.
_STOP_LETTERS = (
    frozenset(
        "\u7684\u4e86\u662f\u5728\u6211\u4f60\u60a8\u4ed6\u5979\u5b83\u4eec\u5417\u5462\u5427"
        "\u554a\u4ec0\u4e48\u600e\u54ea\u91cc\u8c01\u8fd9\u90a3\u548c\u4e5f\u90fd\u5c31\u6709"
        "\u8981\u4f1a\u80fd\u8bf7\u95ee\u4e3a\u591a\u5c11\u51e0\u5219\u561b"
    ),
    frozenset("はがをにのでともかすまるてどこれそんなよねだ何誰"),
)
_PAIRS = """
    した まし でし して しま いま いて てい いつ なぜ どう よう ない から まで
    무엇 어디 언제 누구 어떻 떻게 니까 습니 합니 입니 니다 에서 으로 인가 가요 나요 는지 무슨
    어느 얼마 디에 엇을 엇이 까요 하는 해요 어요 아요 세요"""
_STOP_PAIRS = frozenset(_PAIRS.split())


def is_stop_pair(pair: str) -> bool:
    """Return whether a pair of Chinese, Japanese or Korean letters is too common to search for."""
    return pair in _STOP_PAIRS or any(letters.issuperset(pair) for letters in _STOP_LETTERS)


# Words without meaning before another word: `what kind of pie`.
PHRASES = {
    "english": {(word, "of") for word in ("kind", "kinds", "sort", "sorts", "type", "types")}
}


def without_stop_words(
    words: tuple[str, ...], language: str, *, others: bool = False
) -> tuple[str, ...]:
    """Return the words without stop words.

    If only stop words are present, returns all of them, unless the query has `others` to search
    for.
    """
    stop = STOP_WORDS.get(language, frozenset())
    leading = {
        word for word, after in pairwise(words) if (word, after) in PHRASES.get(language, ())
    }
    left = tuple(word for word in words if word not in stop and word not in leading)
    return left if left or others else words
