"""`memrelay chat`: the prompt, and the conversation behind it."""
