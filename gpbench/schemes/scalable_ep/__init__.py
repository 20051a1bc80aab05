"""Scalable and stochastic expectation propagation (Villacampa-Calvo and Hernández-Lobato 2017)."""
