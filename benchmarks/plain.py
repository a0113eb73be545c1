"""The yardstick: V4 as it is usually written.

A DataLoader that augments sample by sample, fp32, a number read from the device in every step, an
evaluation of the client's model after every epoch. The losses, the network and the recipe of the
augmentation are the library's, so that the loops do the same work.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from anchorfl.config import Config
from anchorfl.data import Augmentation, Split
from anchorfl.methods import METHODS
from anchorfl.nn import Network
from anchorfl.objective import BASE_TERMS, Views


class TwoViews(Dataset[tuple[Tensor, Tensor, int]]):
    def __init__(self, images: Tensor, labels: Tensor, recipe: Augmentation) -> None:
        self.images, self.labels, self.recipe = images, labels, recipe
        self.generator = torch.Generator()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, item: int) -> tuple[Tensor, Tensor, int]:
        draws = self.recipe.draw(2, self.generator)[:, None]
        first, second = self.recipe.apply(self.images[item : item + 1], draws)
        return first, second, int(self.labels[item])


def train_client(
    network: Network,
    own: Split,
    test: Split,
    recipe: Augmentation,
    config: Config,
    epochs: int,
    workers: int,
) -> float:
    """Train one client's network for some epochs; returns its last accuracy."""
    options = config.train
    terms = [BASE_TERMS.get(name) for name in METHODS.get(config.method).base_terms]
    device = next(network.parameters()).device
    views = TwoViews(torch.from_numpy(own.images), torch.from_numpy(own.labels), recipe)
    loader = DataLoader(views, options.batch, shuffle=True, num_workers=workers, pin_memory=workers > 0)
    optimizer = torch.optim.SGD(network.parameters(), options.lr, options.momentum)
    accuracy = 0.0
    for _ in range(epochs):
        network.train()
        seen = 0.0
        for first, second, label in loader:
            labels = label.repeat(2).to(device)
            features = network(torch.cat([first, second]).to(device))
            weights = torch.ones(len(labels), device=device)
            seen_views = Views(features, network.prototypes, labels, weights)
            loss = torch.stack([term.loss(seen_views) for term in terms]).sum()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), options.clip_norm)
            optimizer.step()
            seen += loss.item()
        accuracy = evaluated(network, test, options.batch)
    return accuracy


@torch.no_grad()
def evaluated(network: Network, test: Split, batch_size: int) -> float:
    network.eval()
    device = next(network.parameters()).device
    right = 0
    for start in range(0, len(test), batch_size):
        images = torch.from_numpy(test.images[start : start + batch_size]).float() / 255
        labels = torch.from_numpy(test.labels[start : start + batch_size])
        scores = network(images.to(device)) @ network.prototypes.T
        right += int((scores.argmax(dim=1).cpu() == labels).sum().item())
    return right / len(test)
