"""usage: python -m tests.guard.update. Measure the cost of batches and write the file of counts."""

from tests.guard.counts import FILE, find_unlocked, read_counts, update_counts, write_counts
from tests.guard.measure import measure

if __name__ == "__main__":
    if unlocked := find_unlocked():
        raise SystemExit(f"install the locked versions first of: {', '.join(unlocked)}")
    counts = read_counts()
    without_reason = update_counts(counts, measure())
    write_counts(counts)
    print(f"wrote {FILE}")
    for name in without_reason:
        print(f"{name} is above its base: write the reason into its row")
