"""The fused engine: which reductions it supports, when it is available, its autograd function and its kernels."""
