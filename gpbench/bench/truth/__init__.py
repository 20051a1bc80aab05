"""Reference posteriors: exact answers by long sampling, stored, and what methods with the same kernel miss of them."""
