"""SQL of the control plane, system.db: one file a table's worth, beside how the file is opened and
changed."""
