"""Expectation propagation to its fixed point: full EP, and generalized FITC (Naish-Guzman and Holden 2007)."""
