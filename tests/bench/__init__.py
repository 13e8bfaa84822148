"""Benchmarks of a served hub: ``make bench``."""
