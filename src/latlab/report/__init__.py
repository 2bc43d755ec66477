"""A run made readable: tables in the terminal, pictures, and one offline HTML page."""
