"""Text analysis: words as the index has them, stems, stop words, and dates in questions."""
