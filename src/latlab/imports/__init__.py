"""What other programs measured, read into run folders: a file a format, a table of formats, one writer."""
