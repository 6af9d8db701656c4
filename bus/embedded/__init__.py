"""The embedded server: a real Valkey or Redis beside the program, found, started, watched and
shared."""
