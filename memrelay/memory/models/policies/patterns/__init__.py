"""Patterns that policies find by name: secrets and personal data (docs/policy-patterns.md)."""

from memrelay.memory.models.policies.patterns.finder import (
    BadFind,
    Finder,
    Match,
    compile_find,
    redact,
)

__all__ = ["BadFind", "Finder", "Match", "compile_find", "redact"]
