"""What every scheme shares: kernels, likelihoods, quadrature, linear algebra, inducing inputs, the posterior."""
