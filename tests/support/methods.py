"""Methods that tests go through."""

from __future__ import annotations

from residapt.methods import method_names

FOR_ANY_NETWORK = [name for name in method_names() if name != "norm_affine"]
"""All but the one that needs normalisation layers, which the smallest networks lack."""
