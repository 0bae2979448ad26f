"""The interval of a verdict, written out once more, term by term as it is published."""

import math

ALPHA = 0.05


def written_out(n, s, q, tuned: float = 5000):
    """Difference of the normalised means of learner and control, and the radius.

    Parameters
    ----------
    n, s, q : of both groups the acts, the sum of their normalised rewards, and that of the squares of these
    tuned : acts at which the interval is to be narrow
    """
    doubled = -2 * math.log(ALPHA)
    r = (doubled + math.log(doubled + 1)) / tuned
    total, spread = sum(n), 0.0
    for n_g, s_g, q_g in zip(n, s, q, strict=True):
        spread += ((q_g + 2) / (n_g + 4) - ((s_g + 2) / (n_g + 4)) ** 2) * total / n_g
    log_term = math.log(math.sqrt(total * r + 1) / ALPHA)
    return s[0] / n[0] - s[1] / n[1], math.sqrt(spread * 2 * (total * r + 1) / (total**2 * r) * log_term)
