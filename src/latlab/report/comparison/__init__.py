"""How cells and runs differ, in words, tables and Markdown."""
