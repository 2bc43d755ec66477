"""How cells and runs differ, as a document, in words, tables, Markdown and JUnit XML."""
