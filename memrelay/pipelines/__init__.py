"""Bundles: their model, their checks, and the sample bundles. docs/bundle.schema.json is generated
from them."""
