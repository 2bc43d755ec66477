"""Parts of a test bed, with scenarios that need them."""
