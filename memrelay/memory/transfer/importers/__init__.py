"""Importers of the memories of other systems, one file per source."""
