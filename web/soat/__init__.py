"""Named memories under the paths and in the shapes that SOAT documents (seed 004,
contracts/soat.md): a face like any other."""
