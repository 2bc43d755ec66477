"""Numbers with known answers, and evidence that breaks rules of trust or does not."""
