"""Charts, each declared once: the page, the files and a notebook draw the same declaration."""
