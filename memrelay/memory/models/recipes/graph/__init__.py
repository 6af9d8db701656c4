"""Knowledge graphs and their views."""
