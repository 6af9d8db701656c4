-- Parts as memory/text/words.py defines them now: letters that unicode61 does not fold are folded,
-- and words in scripts with marks are whole. Plain ASCII keeps its parts, except grouped numbers
-- (1,000).
CREATE TABLE changing AS
  SELECT row, content, parts, parts_of(content) AS wanted FROM records
  WHERE (octet_length(content) <> length(content) OR content GLOB '*[0-9][,'']*[0-9]*') AND parts IS NOT parts_of(content);
INSERT INTO parts_fts(parts_fts, rowid, content, parts)
  SELECT 'delete', row, content, parts FROM changing WHERE parts IS NOT NULL ORDER BY row;
UPDATE records SET parts = wanted FROM changing WHERE records.row = changing.row;
INSERT INTO parts_fts(rowid, content, parts) SELECT row, content, wanted FROM changing WHERE wanted IS NOT NULL ORDER BY row;
DROP TABLE changing;
