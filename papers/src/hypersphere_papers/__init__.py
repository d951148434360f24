"""The laboratory: every figure and table of the five papers that hypersphere implements, run and judged."""
