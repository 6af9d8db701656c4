"""Records: their fields, ids, tags, data and API views."""
