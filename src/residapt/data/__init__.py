"""Domains: images of the source with labels, images of the target without, and batches of both.

Example:
    >>> import torch
    >>> from residapt.data.domains import DomainPair, Labelled, TensorImages
    >>> images, labels = torch.rand(6, 1, 8, 8), torch.arange(6) % 2
    >>> pair = DomainPair(Labelled(TensorImages(images), labels), TensorImages(images.flip(3)))
    >>> len(pair.target)
    6
"""
