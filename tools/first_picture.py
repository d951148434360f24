"""Draw README's picture: photos of painted people as points on a circle, before and after training with ArcFace."""

from __future__ import annotations

import math
from typing import Any

import torch
from matplotlib.patches import Rectangle
from torch import Tensor

import hypersphere as hs
from hypersphere.geometry import normalize
from hypersphere.plots import COLORS, new_figure
from hypersphere.pocket import PocketFaces

PEOPLE = 6
TRAINING_PHOTOS = 270
NEW_PHOTOS = 30
STEPS = 600
SIZE = 32


def embed(net: torch.nn.Module, images: Tensor) -> Tensor:
    """Return the unit embeddings of images in evaluation mode."""
    net.eval()
    with torch.no_grad():
        return normalize(net(images))


def train_and_embed() -> tuple[PocketFaces, Tensor, Tensor, Tensor]:
    """Train a small network with ArcFace in two dimensions.

    Returns:
        The faces, the labels of the photos it was not trained on, and their embeddings before and after training.
    """
    faces = PocketFaces(PEOPLE, TRAINING_PHOTOS + NEW_PHOTOS, size=SIZE, difficulty=0.5)
    images = faces.batch(range(len(faces))).float() / 127.5 - 1
    labels = torch.from_numpy(faces.labels)
    trained_on = torch.arange(len(faces)) % (TRAINING_PHOTOS + NEW_PHOTOS) < TRAINING_PHOTOS
    torch.manual_seed(0)
    net = hs.create_backbone("cnn4", dim=2, input_size=(SIZE, SIZE))
    head = hs.create_head("arcface", dim=2, num_classes=PEOPLE, scale=12, margin=0.3, prototype_norm=1.0)
    parameters = [*net.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=2e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    before = embed(net, images[~trained_on])
    net.train()
    order = torch.nonzero(trained_on).flatten()
    for _ in range(STEPS):
        batch = order[torch.randint(len(order), (60,))]
        optimizer.zero_grad()
        head(net(images[batch]), labels[batch]).backward()
        optimizer.step()
        schedule.step()
    return faces, labels[~trained_on], before, embed(net, images[~trained_on])


def draw_sheet(axes: Any, faces: PocketFaces) -> None:
    """Draw four photos of each person in a row, framed in the person's colour."""
    for person in range(PEOPLE):
        for column in range(4):
            photo = faces.read(person * (TRAINING_PHOTOS + NEW_PHOTOS) + TRAINING_PHOTOS + column)
            axes.imshow(photo, extent=(column, column + 0.96, -1.15 * person - 0.96, -1.15 * person))
        frame_of(axes, -0.02, -1.15 * person - 0.98, 4.0, 1.0, person)
    axes.set(xlim=(-0.2, 4.1), ylim=(-1.15 * PEOPLE, 0.15), title="six people, new photos")
    axes.set_axis_off()


def draw_circle(axes: Any, title: str, embeddings: Tensor, labels: Tensor) -> None:
    """Draw unit embeddings on the circle in the colours of their people."""
    around = torch.linspace(0, 2 * math.pi, 361)
    axes.plot(around.cos(), around.sin(), color="#8899AA", linewidth=1, zorder=1)
    for person in range(PEOPLE):
        x, y = embeddings[labels == person].T
        axes.scatter(x, y, s=34, color=COLORS[person], alpha=0.55, edgecolors="none", zorder=2)
    axes.set(xlim=(-1.75, 1.75), ylim=(-1.75, 1.75), aspect="equal", title=title)
    axes.set_axis_off()


def draw_portraits(axes: Any, faces: PocketFaces, embeddings: Tensor, labels: Tensor) -> None:
    """Draw a photo of each person outside the circle, where the mean of the person's embeddings points."""
    limits = {"xlim": axes.get_xlim(), "ylim": axes.get_ylim()}
    for person in range(PEOPLE):
        x, y = (1.4 * normalize(embeddings[labels == person].mean(0)) - 0.24).tolist()
        photo = faces.read(person * (TRAINING_PHOTOS + NEW_PHOTOS) + TRAINING_PHOTOS)
        axes.imshow(photo, extent=(x, x + 0.48, y, y + 0.48), zorder=3)
        frame_of(axes, x, y, 0.48, 0.48, person)
    axes.set(**limits)  # imshow has narrowed them to the last photo


def frame_of(axes: Any, x: float, y: float, width: float, height: float, person: int) -> None:
    """Draw a frame in a person's colour."""
    axes.add_patch(
        Rectangle((x, y), width, height, edgecolor=COLORS[person], facecolor="none", linewidth=2.5, zorder=4)
    )


def draw_before_and_after() -> Any:
    """Draw the photos, and their embeddings before and after training."""
    faces, labels, before, after = train_and_embed()
    figure = new_figure(9.0, 3.3)
    sheet, left, right = figure.subplots(1, 3, width_ratios=(0.75, 1, 1))
    draw_sheet(sheet, faces)
    draw_circle(left, "their embeddings before training", before, labels)
    draw_circle(right, f"after {STEPS} steps with ArcFace", after, labels)
    draw_portraits(right, faces, after, labels)
    return figure
