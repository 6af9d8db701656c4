"""The filter language (docs/filters.md): its fields, its parser and its input type.
memory/sqlite/filters.py compiles it to SQL.
"""
