"""The transports of the MCP server: HTTP and stdio, and how their clients reach operations."""
