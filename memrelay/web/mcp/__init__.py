"""The Model Context Protocol (MCP): tools, resources and prompts that call operations."""
