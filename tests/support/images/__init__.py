"""What is in an image, and what happens when it boots."""
