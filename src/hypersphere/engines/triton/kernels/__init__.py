"""Triton kernels of the fused engine. Importing this package imports triton."""
