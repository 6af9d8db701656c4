"""Read the files that hold the items of other systems: zip files and JSON documents."""
