"""The message bus: envelope, codec, streams, requests, leases and the embedded server."""
