"""The embedded server: a Valkey or Redis process that Memrelay starts, watches and shares."""
