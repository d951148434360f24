"""IJB-A, IJB-B and IJB-C."""
