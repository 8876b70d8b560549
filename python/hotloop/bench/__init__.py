"""Measuring speed: a small measuring core, one module per suite, one module per peer.

Benchmarks print numbers and judge nothing; no test asserts a time.
"""
