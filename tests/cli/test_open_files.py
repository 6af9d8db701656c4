"""The limit of open stores follows the handles and the memory."""

from memrelay.cli.open_files import fitting_stores, resolve_open_files


def test_zero_open_files_means_as_many_as_fit() -> None:
    assert 0 < resolve_open_files(0) <= fitting_stores()


def test_a_configured_number_of_open_files_is_used() -> None:
    assert resolve_open_files(7) == 7
