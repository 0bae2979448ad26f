"""Throughput and latency beside floors on the same stack."""
