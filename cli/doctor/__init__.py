"""`memrelay doctor`: what may be wrong, one file a theme, each finding with its remedy."""
