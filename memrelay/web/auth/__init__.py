"""Authentication and authorization: keys, browser sessions, webhook tokens and signatures."""
