"""WGAN-GP in eager PyTorch: the trainer's networks, layer by layer, driven over standard input.

Run by an interpreter that has PyTorch; nothing else is imported. Arguments: the work as JSON,
and `channels_last` or `contiguous`. Prints a line of JSON when it is ready; then for every line
with a number of steps that it reads, does them, and prints the processor seconds that they took.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time

import torch
from torch import nn

MAX_WIDENING = 8


def plan(image_size: int) -> tuple[int, int]:
    """Side of the smallest feature map, and how often it doubles to make the image."""
    base = 7 if image_size == 28 else 4
    return base, int(math.log2(image_size // base))


def norm(channels: int) -> nn.Module:
    """Layer normalisation over C, H, W with a gain and a bias per channel, as one operation."""
    return nn.GroupNorm(1, channels, eps=1e-5)


class Generator(nn.Module):
    """Latent [B, N] to image [B, 1, H, W]."""

    def __init__(self, work: dict):
        super().__init__()
        self.base, doublings = plan(work["image_size"])
        width = work["generator_channels"] * min(2**doublings, MAX_WIDENING)
        self.width = width
        self.project = nn.Linear(work["latent_dim"], self.base**2 * width, bias=False)
        layers: list[nn.Module] = [norm(width), nn.ReLU()]
        for depth in reversed(range(doublings)):
            narrower = work["generator_channels"] * min(2**depth, MAX_WIDENING)
            layers += [
                nn.ConvTranspose2d(width, narrower, 4, 2, 1, bias=False),
                norm(narrower),
                nn.ReLU(),
            ]
            width = narrower
        self.body = nn.Sequential(*layers, nn.Conv2d(width, 1, 3, padding=1), nn.Tanh())

    def forward(self, latent: torch.Tensor) -> torch.Tensor:
        return self.body(self.project(latent).view(-1, self.width, self.base, self.base))


class Critic(nn.Module):
    """Image [B, 1, H, W] to score [B]."""

    def __init__(self, work: dict):
        super().__init__()
        base, halvings = plan(work["image_size"])
        layers: list[nn.Module] = []
        before = 1
        for depth in range(halvings):
            width = work["critic_channels"] * min(2**depth, MAX_WIDENING)
            layers.append(nn.Conv2d(before, width, 4, 2, 1, bias=depth == 0))
            if depth:
                layers.append(norm(width))
            layers.append(nn.LeakyReLU(0.2))
            before = width
        self.body = nn.Sequential(*layers)
        self.score = nn.Linear(before * base**2, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.score(self.body(images).flatten(1))[:, 0]


class Training:
    """The same updates as the trainer's, on a batch that is there."""

    def __init__(self, work: dict, layout: torch.memory_format):
        self.work = work
        self.layout = layout
        self.generator = Generator(work).to(memory_format=layout)
        self.critic = Critic(work).to(memory_format=layout)
        how = {"lr": 2e-4, "betas": (0.0, 0.9), "eps": 1e-7, "fused": True}
        self.generator_adam = torch.optim.Adam(self.generator.parameters(), **how)
        self.critic_adam = torch.optim.Adam(self.critic.parameters(), **how)
        size = work["image_size"]
        shape = [work["critic_steps"], work["batch_size"], 1, size, size]
        self.images = torch.randint(0, 256, shape, dtype=torch.uint8)

    def step(self) -> None:
        """Critic updates, then a generator update."""
        for images in self.images:
            self.update_critic(images.float().div(127.5).sub(1.0))
        self.generator_adam.zero_grad(set_to_none=True)
        for parameter in self.critic.parameters():
            parameter.requires_grad_(False)
        (-self.critic(self.generator(self.latent())).mean()).backward()
        for parameter in self.critic.parameters():
            parameter.requires_grad_(True)
        self.generator_adam.step()

    def update_critic(self, real: torch.Tensor) -> None:
        """One Adam step on the Wasserstein loss and the gradient penalty."""
        real = real.contiguous(memory_format=self.layout)
        with torch.no_grad():
            fake = self.generator(self.latent())
        alpha = torch.rand([len(real), 1, 1, 1])
        between = (fake + alpha * (real - fake)).requires_grad_(True)
        real_scores, fake_scores = self.critic(torch.cat([real, fake])).chunk(2)
        (gradients,) = torch.autograd.grad(self.critic(between).sum(), between, create_graph=True)
        norms = (gradients.square().sum(dim=[1, 2, 3]) + 1e-12).sqrt()
        loss = (fake_scores - real_scores + 10.0 * (norms - 1.0).square()).mean()
        self.critic_adam.zero_grad(set_to_none=True)
        loss.backward()
        self.critic_adam.step()

    def latent(self) -> torch.Tensor:
        """Standard normal [B, N]."""
        return torch.randn([self.work["batch_size"], self.work["latent_dim"]])


def main(work: dict, layout: str) -> None:
    """Trains as standard input asks."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(0)
    formats = {"channels_last": torch.channels_last, "contiguous": torch.contiguous_format}
    training = Training(work, formats[layout])
    ready = {
        "version": torch.__version__,
        "generator": sum(p.numel() for p in training.generator.parameters()),
        "critic": sum(p.numel() for p in training.critic.parameters()),
    }
    print(json.dumps(ready), flush=True)
    for line in sys.stdin:
        begun = time.process_time()
        for _ in range(int(line)):
            training.step()
        print(time.process_time() - begun, flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
