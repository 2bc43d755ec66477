"""What tests share, by subject: fixtures, machines to change, evidence, files and programs."""
