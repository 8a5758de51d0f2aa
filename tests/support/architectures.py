"""The image classifiers of the sweep: torchvision, timm and Hugging Face, small where the library offers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn

CLASSES = 5


class Architecture(NamedTuple):
    """A network with random weights, the side of its images, and layers that must be among the transformed ones."""

    build: Callable[[], nn.Module]
    size: int
    layers: tuple[str, ...] = ()
    slow: bool = False


def _torchvision(name: str, size: int = 32, *layers: str, slow: bool = False, **options: Any) -> Architecture:
    def build() -> nn.Module:
        import torchvision

        return torchvision.models.get_model(name, weights=None, num_classes=CLASSES, **options)

    return Architecture(build, size, layers, slow)


def _timm(name: str, size: int = 32, *layers: str, slow: bool = False, **options: Any) -> Architecture:
    def build() -> nn.Module:
        import timm

        return timm.create_model(name, num_classes=CLASSES, **options)

    return Architecture(build, size, layers, slow)


def _hf(config: str, *layers: str, **options: Any) -> Architecture:
    def build() -> nn.Module:
        import transformers

        made = getattr(transformers, config)(num_labels=CLASSES, **options)
        return transformers.AutoModelForImageClassification.from_config(made)

    return Architecture(build, 32, layers)


def _small_transformer() -> dict[str, Any]:
    return {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "image_size": 32,
        "patch_size": 8,
    }


def _torchvision_vit() -> nn.Module:
    from torchvision.models import VisionTransformer

    return VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=CLASSES)


def _torchvision_maxvit() -> nn.Module:
    from torchvision.models import MaxVit

    return MaxVit((32, 32), 8, 4, [8, 16], [1, 1], 8, stochastic_depth_prob=0.2, num_classes=CLASSES)


def _torchvision_swin() -> nn.Module:
    from torchvision.models import SwinTransformer

    return SwinTransformer([2, 2], 12, [2, 2], [2, 2], [4, 4], stochastic_depth_prob=0.1, num_classes=CLASSES)


ARCHITECTURES: dict[str, Architecture] = {
    "torchvision resnet18": _torchvision("resnet18", 32, "layer1.0.conv1"),
    "torchvision resnet50": _torchvision("resnet50", 32, "layer4.2.conv3", "fc"),
    "torchvision resnext50": _torchvision("resnext50_32x4d", 32, "layer1.0.conv2"),
    "torchvision efficientnet_b0": _torchvision("efficientnet_b0", 32, "features.1.0.block.1.fc1"),
    "torchvision convnext_tiny": _torchvision("convnext_tiny", 32),
    "torchvision mobilenet_v2": _torchvision("mobilenet_v2"),
    "torchvision mobilenet_v3_small": _torchvision("mobilenet_v3_small"),
    "torchvision densenet121": _torchvision("densenet121"),
    "torchvision vgg11_bn": _torchvision("vgg11_bn", 32, slow=True),
    "torchvision alexnet": _torchvision("alexnet", 64, slow=True),
    "torchvision regnet_y_400mf": _torchvision("regnet_y_400mf"),
    "torchvision shufflenet_v2": _torchvision("shufflenet_v2_x0_5"),
    "torchvision squeezenet1_1": _torchvision("squeezenet1_1"),
    "torchvision googlenet": _torchvision("googlenet", 64, aux_logits=True, init_weights=False),
    "torchvision inception_v3": _torchvision("inception_v3", 299, slow=True, aux_logits=True, init_weights=False),
    "torchvision mnasnet0_5": _torchvision("mnasnet0_5"),
    "torchvision vit": Architecture(
        _torchvision_vit, 32, ("encoder.layers.encoder_layer_0.self_attention.in_proj.q", "heads.head")
    ),
    "torchvision swin": Architecture(_torchvision_swin, 32, ("features.1.0.attn.qkv", "features.1.0.attn.proj")),
    "torchvision maxvit": Architecture(_torchvision_maxvit, 32),
    "timm tf_efficientnet_lite0": _timm("tf_efficientnet_lite0", 32, "blocks.5.0.conv_dw"),
    "timm vit_tiny": _timm("vit_tiny_patch16_224", 32, "blocks.0.attn.qkv", "blocks.11.attn.proj", img_size=32),
    "timm deit_tiny distilled": _timm("deit_tiny_distilled_patch16_224", 32, "blocks.0.attn.qkv", img_size=32),
    "timm swin_tiny": _timm("swin_tiny_patch4_window7_224", 32, img_size=32, window_size=4),
    "timm resnet18 group norm": _timm("resnet18", norm_layer="groupnorm"),
    "timm nf_resnet26": _timm("nf_resnet26"),
    "timm eca_nfnet_l0": _timm("eca_nfnet_l0"),
    "timm resnest14d": _timm("resnest14d"),
    "timm seresnet18": _timm("seresnet18", 32, "layer1.0.se.fc1"),
    "timm mixer_s32": _timm("mixer_s32_224", img_size=32),
    "timm xcit_nano": _timm("xcit_nano_12_p16_224", img_size=32),
    "timm resnet18 stochastic depth": _timm("resnet18", drop_path_rate=0.3),
    "hf vit": _hf("ViTConfig", **_small_transformer()),
    # transformers has two classifiers for this configuration, so that it has to say which.
    "hf deit": _hf("DeiTConfig", architectures=["DeiTForImageClassification"], **_small_transformer()),
    "hf resnet": _hf("ResNetConfig", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"),
    "hf convnext": _hf("ConvNextConfig", hidden_sizes=[8, 12, 16, 20], depths=[1, 1, 1, 1]),
    "hf swin": _hf(
        "SwinConfig", image_size=32, patch_size=2, embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=4
    ),
    "hf mobilenet_v2": _hf("MobileNetV2Config", depth_multiplier=0.35, image_size=32),
}
