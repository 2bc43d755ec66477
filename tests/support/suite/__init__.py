"""How the tests are run: their marks, who has which CPU, how many examples Hypothesis makes up."""
