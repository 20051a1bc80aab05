"""The inference schemes, one module for one family."""
