"""Functions that the step `custom` can call, one module each."""
