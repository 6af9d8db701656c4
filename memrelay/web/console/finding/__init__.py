"""The search of the page "Find" in all pipelines."""
