"""Keep notes in one file. No server runs."""

import argparse

from memrelay import open_store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default="notes.db")
    parser.add_argument("action", choices=["add", "find"])
    parser.add_argument("text")
    options = parser.parse_args()
    # Ranked by words. `embedder="bge"` adds the meaning, and takes a second to load.
    with open_store(options.file, embedder="none") as store:
        if options.action == "add":
            print(store.records.create(options.text, tags=["note"]).guid)
        else:
            for hit in store.records.search(options.text, mode="hybrid", limit=5).items:
                print(hit.record.content)


if __name__ == "__main__":
    main()
