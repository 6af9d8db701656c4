"""The step types of recipes, grouped by what they work on."""
