"""`memrelay chat`: a prompt, what is said at it, and what others say meanwhile."""
