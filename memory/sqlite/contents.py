"""What records say, for rows in any order."""
import apsw
import orjson

from memory.sqlite.vocabulary import Rows

CONTENTS = ("SELECT CASE WHEN octet_length(content) <= ?2 THEN content ELSE '' END FROM json_each(?1) AS wanted "
            "LEFT JOIN records ON row = wanted.value ORDER BY wanted.key")


def contents(connection: apsw.Connection, rows: Rows, longest: int) -> list[str]:
    """Of each row its content; "" for one that is longer than so many bytes, which is not read, and where there is none."""
    return [content for content, in connection.execute(CONTENTS, (orjson.dumps(rows.tolist()).decode(), longest))]
