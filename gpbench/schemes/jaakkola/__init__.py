"""Quadratic bounds of the logit: Jaakkola-Jordan and Taylor (Izmailov and Kropotov 2016)."""
