"""How alike two short facts are: the same, related, or two things (docs/likeness.md). Nothing here reads or writes anything."""
