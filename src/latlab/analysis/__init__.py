"""What the packets mean: pure functions from tables to tables. No files, no processes."""
