"""Deliveries to endpoints: bodies, signatures and requests. Loaded with the first endpoint."""
