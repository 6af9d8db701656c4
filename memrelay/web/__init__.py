"""HTTP interfaces: REST API, webhooks, WebSockets, SOAT routes, health checks, and the console."""
