"""OAuth 2.1 for clients of MCP: the authorization server, and the metadata of /mcp as a resource.

A web server loads it only with `web.public_url` and the extra `mcp`.
"""
