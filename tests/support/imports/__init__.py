"""Files of other programs, and of programs that the tests write themselves."""
