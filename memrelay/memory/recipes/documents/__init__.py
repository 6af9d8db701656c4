"""Collections of documents."""
