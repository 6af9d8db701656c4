"""Balancing groups among workers: all are served, about equally, and without needless moves."""

from hypothesis import given
from hypothesis import strategies as st

from memrelay.worker.session import Members, balance


def make_groups(count: int) -> list[Members]:
    """Return groups of one or two pipelines."""
    return [
        frozenset({f"p{number}", f"q{number}"} if number % 3 == 0 else {f"p{number}"})
        for number in range(count)
    ]


def served(held: list[Members]) -> frozenset[str]:
    return frozenset().union(*held)


def test_a_single_worker_takes_all_groups() -> None:
    groups = make_groups(5)

    assert balance(groups, frozenset(), []) == ([], groups)


def test_a_new_worker_takes_nothing_until_another_releases_groups() -> None:
    groups = make_groups(4)
    everything = served(groups)

    assert balance(groups, frozenset(), [everything]) == ([], [])
    assert balance(groups, everything, [frozenset()]) == (groups[:2], [])


def test_equal_shares_do_not_move() -> None:
    groups = make_groups(5)

    assert balance(groups, served(groups[:3]), [served(groups[3:])]) == (groups[:3], [])
    assert balance(groups, served(groups[3:]), [served(groups[:3])]) == (groups[3:], [])


@given(
    st.integers(0, 12),
    st.lists(st.integers(0, 3), min_size=12, max_size=12),
    st.integers(1, 4),
    st.randoms(),
)
def test_workers_reach_equal_shares_in_any_order(
    count: int, first_owners: list[int], workers: int, random: st.DataObject
) -> None:
    groups = make_groups(count)
    owned: list[list[Members]] = [
        [group for group, owner in zip(groups, first_owners, strict=False) if owner == worker]
        for worker in range(workers)
    ]
    for _ in range(4 * workers):
        for worker in random.sample(range(workers), workers):  # type: ignore[attr-defined]
            others = [served(held) for other, held in enumerate(owned) if other != worker]
            keep, take = balance(groups, served(owned[worker]), others)
            owned[worker] = keep + take

    counts = [len(held) for held in owned]
    assert served([group for held in owned for group in held]) == served(groups)
    assert sum(counts) == count
    assert max(counts) - min(counts) <= 1
