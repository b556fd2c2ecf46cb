"""Measures agentkit beside its peers, and beside the least code that keeps the same promises.

``python -m benchmarks`` runs everything, ``python -m benchmarks NAME...`` some; README.md here says what is timed.
"""
