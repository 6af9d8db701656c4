"""Whole files: backup, restore, export and salvage of stores."""
