"""Operations of memory, one module each. Modules without `@operation` hold shared code."""
