"""Make 200 nonsense queries: random words, other languages and random letters. The right answer to
each is no hit."""

from random import Random
from string import ascii_lowercase

COUNT = 200
WORDS = """
    quantum carburetor isotope ledger parliament tectonic enzyme viscosity mortgage algebra plumbing
    saxophone glacier cathedral invoice thermostat asteroid tariff longitude umbrella sulfur gearbox
    volcano trigonometry fjord lobster semaphore turbine bauxite poultry monsoon pharaoh scaffold
    hexagon lighthouse chromium barometer sonata pancreas mercantile tadpole granite zeppelin
    gondola cobalt stapler window table river stone paper engine market bottle silver ladder kitchen
    bridge camera pencil blanket cloud button corner"""
SENTENCES = """
    ¿Dónde está la biblioteca municipal?
    Wo kann ich hier die Steuererklärung abgeben?
    Quel est le prix du billet pour Lyon?
    Какая сегодня погода в Москве?
    今日の天気はどうですか
    怎样煮一碗好吃的牛肉面
    오늘 점심은 뭐 먹을까요
    Come si prepara la pasta alla carbonara?
    Quanto custa um quilo de feijão?
    Hoeveel kost een retourtje naar Utrecht?
    Gdzie jest najbliższy przystanek autobusowy?
    Kde je nejbližší lékárna?
    Missä on lähin apteekki?
    Hvor langt er det til Oslo?
    كم سعر هذا الكتاب؟
    איפה תחנת הרכבת?
    ราคาตั๋วรถไฟเท่าไหร่
    Bu tren ne zaman gelecek?
    Πόσο κοστίζει το εισιτήριο;
    Unde este gara centrală?
    Hol van a legközelebbi bolt?
    Var ligger närmaste sjukhus?
    Magkano ang pamasahe papuntang Cebu?
    Di mana kantor pos terdekat?
    Làm thế nào để nấu phở bò?
    यह ट्रेन कब आएगी
    Die Katze schläft auf dem Sofa
    Le chat dort sur le canapé
    El perro corre por el parque
    Der Hund bellt die ganze Nacht"""


def make_queries(seed: int = 2026) -> list[str]:
    """Return 200 queries, a third of each kind. Equal seeds give equal queries."""
    random = Random(seed)
    known, sentences = WORDS.split(), [line.strip() for line in SENTENCES.strip().splitlines()]
    third = COUNT // 3
    words = [" ".join(random.sample(known, random.randint(2, 6))) for _ in range(third)]
    languages = [sentences[number % len(sentences)] for number in range(third)]
    typed = [
        " ".join(_make_letters(random) for _ in range(random.randint(1, 4)))
        for _ in range(COUNT - 2 * third)
    ]
    return words + languages + typed


def _make_letters(random: Random) -> str:
    return "".join(random.choices(ascii_lowercase, k=random.randint(4, 9)))
