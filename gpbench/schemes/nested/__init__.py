"""Schemes with an inner optimum over q: mean field, sparse MAP, full KL (Hensman, Matthews and Ghahramani 2015)."""
