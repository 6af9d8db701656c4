-- What is indexed of a content beside itself, so that its parts are found: memory/words.py's `parts_of`, which the program
-- gives to SQL; NULL for most.
ALTER TABLE records ADD COLUMN parts TEXT;
UPDATE records SET parts = parts_of(content) WHERE parts_of(content) IS NOT NULL;

-- Records that have parts are indexed twice: among all by their content alone, so that parts change no relevance there, and
-- here with their parts, so that of several words some may be parts.
CREATE VIEW records_in_parts AS SELECT row, content, parts FROM records WHERE parts IS NOT NULL;
CREATE VIRTUAL TABLE parts_fts USING fts5(
  content, parts, content = 'records_in_parts', content_rowid = 'row', tokenize = "unicode61 remove_diacritics 2"
);
INSERT INTO parts_fts(parts_fts) VALUES ('rebuild');
