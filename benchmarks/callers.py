"""usage: callers.py. Measure the first and later verifications of JWTs, and sealing and opening.

The targets are 0.3 ms for a JWT and 20 µs for a value of 200 characters.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from memrelay.memory.models.shared_stores.sealing import Sealer
from memrelay.memory.models.shared_stores.seals import SealAddress
from memrelay.web.auth.jwt_callers import make_verifier
from tests.support.jwts import ALGORITHMS, KeyPair, make_issuer, write_key_set

ROUNDS, VERIFICATIONS, VALUES = 5, 1_000, 10_000
VALUE = "x" * 200


async def measure_jwt(folder: Path) -> None:
    """Print the time of a verification for each algorithm."""
    file, pairs = folder / "keys.json", [KeyPair(name, name) for name in ALGORITHMS]
    write_key_set(file, *pairs)
    verifier = make_verifier([make_issuer(file, "uid")], folder)
    for pair in pairs:
        tokens = [pair.sign(agent_id="a1", user_id=f"u{at}") for at in range(VERIFICATIONS)]
        for name in ("first", "later"):
            started = time.perf_counter()
            for token in tokens:
                await verifier.authenticate(token)
            taken_ms = (time.perf_counter() - started) / VERIFICATIONS * 1e3
            print(f"jwt {pair.algorithm:6} {name} {taken_ms:8.3f} ms")


def measure_sealing() -> None:
    """Print the time of sealing and opening a value."""
    sealer, place = Sealer([bytes(32)]), SealAddress("uid", "store", "a1", "", "key")
    text = sealer.seal(VALUE, place)
    _print_median("seal", lambda: sealer.seal(VALUE, place))
    _print_median("seal with an idempotency key", lambda: sealer.seal(VALUE, place, "id"))
    _print_median("open", lambda: sealer.open(text, place))


def _print_median(name: str, action: Callable[[], object]) -> None:
    rounds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(VALUES):
            action()
        rounds.append((time.perf_counter() - started) / VALUES)
    print(f"{name:30} {sorted(rounds)[ROUNDS // 2] * 1e6:8.1f} µs")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(measure_jwt(Path(temporary)))
    measure_sealing()
