"""The engine on SQLite: all SQL of the stores is in this folder, in functions named for what they
do."""
