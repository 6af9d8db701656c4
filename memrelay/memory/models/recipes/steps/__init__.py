"""The step types of recipes, one module each."""
