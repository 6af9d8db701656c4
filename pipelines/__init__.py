"""Bundles: their model, their checks, and the sample bundles (JSON). docs/bundle.schema.json is
their JSON Schema."""
