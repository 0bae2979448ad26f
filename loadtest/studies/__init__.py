"""The paper's experiments and the studies beyond it."""
