"""Resources of pipelines, the completion of their URIs, and prompts."""
