"""Claims as measurements: ours, a named peer and the practical limit, interleaved in one run, as ratios."""
