r"""MMD: one network for both domains whose features have the same distribution, as kernels see it.

``mmd`` is Deep Domain Confusion (Tzeng et al. 2014), a linear kernel: :math:`\|\bar f_s - \bar f_t\|_2^2`.
``mk_mmd`` sums Gaussian kernels, :math:`\overline{k(f_s, f_s')} + \overline{k(f_t, f_t')} -
2\,\overline{k(f_s, f_t)}`: the 19 of the MMD baseline in Bousmalis et al. 2016, or DAN's five around the
median distance (Long et al. 2015). Both read what ``discrepancy.layer`` names; the originals read a layer
before the classifier.
"""

from __future__ import annotations

from torch import Tensor, nn

from residapt.methods.config import MethodConfig
from residapt.methods.registry import register
from residapt.methods.shared import SharedAlignment


class LinearMMD(SharedAlignment):
    """Shared weights and the distance of the means."""

    name = "mmd"
    kind = "mmd"


class MultiKernelMMD(SharedAlignment):
    """Shared weights and MMD with several Gaussian kernels."""

    name = "mk_mmd"
    kind = "mk_mmd"


@register("mmd")
def build(model: nn.Module, config: MethodConfig, example: Tensor) -> LinearMMD:
    """The distance of the means (Tzeng et al. 2014)."""
    return LinearMMD.around(model, config, example)


@register("mk_mmd")
def build_multi_kernel(model: nn.Module, config: MethodConfig, example: Tensor) -> MultiKernelMMD:
    """Several Gaussian kernels (Long et al. 2015; Bousmalis et al. 2016)."""
    return MultiKernelMMD.around(model, config, example)
