"""Records the measured figures of the fault tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

RecordFigures = Callable[..., None]
FOLDER = Path(__file__).resolve().parent


@pytest.fixture
def record_figures(record_property: Callable[[str, object], None]) -> RecordFigures:
    """Record a figure: `record_figures(1, "kill -9 of the worker", kills=50, resumed_s=0.4)`.

    It is printed and written to the JUnit file of `make faults`; figures.py makes the table from
    that.
    """

    def record_figures(row: int, fault: str, **figures: object) -> None:
        said = ", ".join(
            f"{name.replace('_', ' ')} {_short(figure)}" for name, figure in figures.items()
        )
        record_property("fault", f"{row} | {fault} | {said}")
        print(f"row {row}: {fault}: {said}")

    return record_figures


def _short(figure: object) -> str:
    return f"{figure:.3g}" if isinstance(figure, float) else str(figure)


# The strongest fault tests, which run with every change. `make test-all` runs all others.
ALWAYS = {
    "test_the_worker_is_killed_at_every_step_of_a_batch",
    "test_a_lost_command_or_reply_loses_and_duplicates_nothing",
    "test_a_server_that_lost_its_data_is_set_up_again",
    "test_a_killed_owner_is_replaced_at_once_on_its_host",
    "test_ten_copies_of_a_message_have_one_effect_and_equal_answers",
    "test_ten_concurrent_copies_of_a_webhook_have_one_effect",
    "test_a_failing_block_fails_only_its_message",
    "test_structural_damage_pauses_only_its_pipeline",
    "test_a_killed_primary_is_replaced_and_nothing_applies_twice",
    "test_messages_survive_the_loss_of_postgresql",
    "test_a_lost_host_is_replaced_with_all_its_records",
    "test_a_paused_host_changes_nothing_after_it_was_replaced",
    "test_failovers_and_moved_slots_of_a_cluster_apply_nothing_twice",
    "test_an_acknowledged_dead_letter_survives_a_power_cut",
    "test_a_stale_condition_changes_nothing",
    "test_ten_thousand_random_calls_see_nothing_of_another_pipeline",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all other tests of this folder as slow."""
    for item in items:
        name = getattr(item, "originalname", item.name)
        if FOLDER in item.path.parents and name not in ALWAYS:
            item.add_marker(pytest.mark.slow)
