"""Records the measured figures of the fault tests."""

from collections.abc import Callable

import pytest

Tell = Callable[..., None]


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Tell:
    """Record a figure: `tell(1, "kill -9 of the worker", kills=50, resumed_s=0.4)`.

    It is printed and written to the JUnit file of `make faults`; figures.py makes the table from
    that.
    """

    def tell(row: int, fault: str, **figures: object) -> None:
        said = ", ".join(
            f"{name.replace('_', ' ')} {_short(figure)}" for name, figure in figures.items()
        )
        record_property("fault", f"{row} | {fault} | {said}")
        print(f"row {row}: {fault}: {said}")

    return tell


def _short(figure: object) -> str:
    return f"{figure:.3g}" if isinstance(figure, float) else str(figure)
