"""Copies of the control plane, and backups in object stores."""
