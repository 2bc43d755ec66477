"""Names that the whole of latlab shares: what has an id, and what it is called."""
