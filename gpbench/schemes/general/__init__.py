"""Schemes for any likelihood: fixed point, gradient, dual, mini-batches, subset of data (sheth2015)."""
