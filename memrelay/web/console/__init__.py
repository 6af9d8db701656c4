"""The console: server-rendered pages that show the same data as the JSON API."""
