"""Pools that go wrong on purpose: the programs in which they do, and the guard around those."""
