"""The paper's experiments, all learners on all cores."""
