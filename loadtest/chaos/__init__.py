"""Faults under load, and the audit that ends each round."""
