"""How cells and runs differ: the comparisons of a result, and the document of `latlab compare`."""
