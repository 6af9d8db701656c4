"""The step types of recipes, one module for each category."""
