"""The benchmarks, with tiny numbers: what is not run rots."""
