"""Execution of recipes: templates, conditions, variables, and the output."""
