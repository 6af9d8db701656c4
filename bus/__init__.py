"""What carries messages: the envelope, its codec, Redis streams and channels, request and reply,
the embedded server."""
