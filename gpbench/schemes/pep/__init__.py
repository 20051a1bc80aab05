"""pep: sparse power expectation propagation with a site for each row (Bui, Yan and Turner 2017)."""
