"""The trace of one message: what it led to, in all swarms and stores of its pipeline."""
