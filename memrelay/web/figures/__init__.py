"""The figures of the last day and week: recording, reading, charts and judgement."""
