"""Robust-max variational inference for several classes (Hensman et al. 2015, in villacampa2017)."""
