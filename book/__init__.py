"""The book's machinery: `python -m book.build` makes the notebooks from `book/src`."""
