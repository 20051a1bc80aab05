"""What the reference results come to as a whole: states of experiments, verdicts counted, findings, a page.

Everything here is made from the reference results alone, by ``python -m gpbench.report.evidence results``.
"""
