"""What users expect of a search: 40 questions to small stores, five of each kind.

A probe is (days ago, text) of each record in the order of writing, a query, the text that must come
first, and further arguments of `records.search`. An empty text means that nothing is found.
"""

from typing import Any, NamedTuple

Notes = tuple[tuple[int, str], ...]


class Probe(NamedTuple):
    """One question and its answer."""

    kind: str
    notes: Notes
    query: str
    first: str
    options: tuple[tuple[str, Any], ...] = ()


HOME: Notes = (
    (400, "The wifi password at the cabin is bluebird42"),
    (300, "Grandma's porridge needs cinnamon and raisins"),
    (200, "The dentist moved to 14 Harbour Street"),
    (90, "Our cat Miso is allergic to chicken"),
    (60, "The spare key is under the third flowerpot"),
    (30, "Passport renewal takes eight weeks"),
    (10, "The plumber fixed the leak in the bathroom"),
    (3, "The school concert starts at six"),
)
WORK: Notes = (
    (660, "Priya leads the billing team"),
    (500, "We chose PostgreSQL for the billing service"),
    (260, "The staging cluster runs in Frankfurt"),
    (180, "Tomas leads the billing team now"),
    (20, "Ticket PAY-1042: refunds fail with error E4017"),
    (19, "Ticket PAY-1043: refunds are slow on Mondays"),
    (8, "Deployed release v2.14.3 to production"),
    (1, "Rolled back release v2.14.3 because of a memory leak"),
)
MOVES: Notes = (
    (700, "Ada lives in Lisbon"),
    (650, "Ada's favourite drink is green tea"),
    (400, "Ada lives in Porto"),
    (200, "Ada's favourite drink is black coffee"),
    (30, "Ada lives in Berlin"),
)
SCRIPTS: Notes = (
    (9, "他在北京的一家银行工作"),
    (8, "彼女は東京で医者をしています"),
    (7, "그는 서울에서 요리사로 일합니다"),
    (6, "Моя сестра живёт в Киеве"),
    (5, "أخي يعمل مهندسا في القاهرة"),
    (4, "La reunión del proyecto es el jueves"),
)
CODE: Notes = (
    (9, "parseUserConfig reads settings.yaml at start"),
    (8, "The flag --dry-run prints the plan only"),
    (7, "Commit 9f3ab27c fixed the race in the scheduler"),
    (6, "user_session_id expires after 30 minutes"),
    (5, "Mail ops@example.com about disk alerts on db-07"),
    (4, "Port 8765 is the web console"),
)
FOOD: Notes = (
    (9, "Lena eats no mushrooms"),
    (8, "Lena loves mushrooms on pizza, her brother says"),
    (7, "Max drinks coffee without milk"),
    (6, "The bakery on Elm Street is closed on Tuesday"),
    (5, "The bakery on Oak Street is open every day"),
)
PARTY: Notes = (
    (9, "We shipped the beta 🎉"),
    (8, "Budget approved ✅"),
    (7, "Server room is on fire 🔥"),
    (6, "👍🏽"),
    (5, "Happy birthday Noor 🎂"),
)
CHAT = (
    "Hi! I hope you had a nice weekend, mine was far too short and mostly rain. "
    "I am trying to get a few things done before the train leaves. "
)
RECENT = (("recency", 0.5),)

PROBES = (
    Probe("typo", HOME, "porrige with cinamon", HOME[1][1]),
    Probe("typo", HOME, "where is the sapre key", HOME[4][1]),
    Probe("typo", HOME, "pasport renewel", HOME[5][1]),
    Probe("typo", HOME, "what is our cat alergic to", HOME[3][1]),
    Probe("typo", HOME, "when does the shcool conzert start", HOME[7][1]),
    Probe("date", WORK, "what happened yesterday", WORK[7][1]),
    Probe("date", WORK, "which release was deployed last week", WORK[6][1]),
    Probe("date", WORK, "what did we set up last March", WORK[2][1]),
    Probe("date", WORK, "release notes of 2026-11-18", WORK[6][1]),
    Probe("date", WORK, "billing in July 2025", WORK[1][1]),
    Probe("superseded", WORK, "who leads the billing team", WORK[3][1], RECENT),
    Probe("superseded", MOVES, "where does Ada live", MOVES[4][1], RECENT),
    Probe("superseded", MOVES, "Ada's favourite drink", MOVES[3][1], RECENT),
    Probe("superseded", MOVES, "Ada lives", MOVES[4][1]),  # equal scores
    Probe("superseded", WORK, "is release v2.14.3 in production", WORK[7][1], (("recency", 0.9),)),
    Probe("script", SCRIPTS, "他在哪里工作\uff1f", SCRIPTS[0][1]),
    Probe("script", SCRIPTS, "彼女はどこで働いていますか", SCRIPTS[1][1]),
    Probe("script", SCRIPTS, "그는 어디에서 일합니까", SCRIPTS[2][1]),
    Probe("script", SCRIPTS, "сестра Киев", SCRIPTS[3][1]),
    Probe("script", SCRIPTS, "reunion jueves", SCRIPTS[5][1]),
    Probe("identifier", WORK, "PAY-1043", WORK[5][1]),
    Probe("identifier", CODE, "parse user config", CODE[0][1]),
    Probe("identifier", CODE, "what does --dry-run do", CODE[1][1]),
    Probe("identifier", CODE, "commit 9f3ab27", CODE[2][1]),
    Probe("identifier", WORK, "E4018", ""),
    Probe("negation", FOOD, "bakery -Elm", FOOD[4][1]),
    Probe("negation", FOOD, "who eats no mushrooms", FOOD[0][1]),
    Probe("negation", FOOD, "who drinks coffee without milk", FOOD[2][1]),
    Probe("negation", FOOD, "which bakery is not open on Tuesday", FOOD[3][1]),
    Probe("negation", FOOD, 'mushrooms -"on pizza"', FOOD[0][1]),
    Probe("long message", HOME, CHAT + "What was the wifi password at the cabin?", HOME[0][1]),
    Probe("long message", HOME, "Where is the spare key? " + CHAT, HOME[4][1]),
    Probe("long message", WORK, CHAT + "Remind me which ticket is about error E4017.", WORK[4][1]),
    Probe("long message", WORK, CHAT + "Where does the staging cluster run?", WORK[2][1]),
    Probe("long message", HOME, CHAT + "Who fixed the leak, and when was it?", HOME[6][1]),
    Probe("emoji", PARTY, "🎉", PARTY[0][1]),
    Probe("emoji", PARTY, "👍", PARTY[3][1]),
    Probe("emoji", PARTY, "🔥🔥", PARTY[2][1]),
    Probe("emoji", PARTY, "birthday 🎂", PARTY[4][1]),
    Probe("emoji", PARTY, "🦄", ""),
)
