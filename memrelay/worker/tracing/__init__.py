"""The parts of a worker that record spans. Only a worker that exports traces loads them."""
