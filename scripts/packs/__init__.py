"""Packs of ours beside those of ms-swift's own classes: what is packed, how, and where they are known to differ."""
