"""What the page of one record shows: its states, changes, neighbors and commands."""
