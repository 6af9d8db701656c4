"""Classes for the frameworks of other projects. Each module needs an extra."""
