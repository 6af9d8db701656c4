"""The filter language (docs/filters.md): its fields, its parser and its input type.
memrelay/memory/sqlite/filters.py compiles it to SQL.
"""
