"""Compile definitions to recipes: the only way from a definition to something that runs."""

from memrelay.memory.recipes.recipe import CompiledStep, Contribution, Recipe, Variable

__all__ = ["CompiledStep", "Contribution", "Recipe", "Variable"]
