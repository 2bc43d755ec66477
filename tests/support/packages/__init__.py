"""Clean machines to install packages on."""
