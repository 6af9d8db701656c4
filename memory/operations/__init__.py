"""One file an operation: `(tx, input) -> output`, reached by every face."""
