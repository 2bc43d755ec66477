"""Whether two configurations differ: repetitions in, differences with their intervals out."""
