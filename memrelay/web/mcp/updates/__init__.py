"""Updates of resources: change feeds, and the streams that report changes."""
