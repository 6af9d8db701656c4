"""Numbered changes of the store's schema. Appended, never edited: files that exist have run the old
ones."""
