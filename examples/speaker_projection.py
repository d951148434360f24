"""A speaker model: frames of any number, pooled to mean and deviation, projected, and trained with SphereFace2.

python examples/speaker_projection.py
"""

import torch
from torch import Tensor, nn

import hypersphere as hs
from hypersphere.evaluation import roc_curve

BANDS, SPEAKERS = 24, 40


class SpeakerEncoder(nn.Module):
    """A stand-in for the frame layers of an x-vector or ECAPA model, with its usual projection."""

    def __init__(self, dim: int = 32) -> None:
        super().__init__()
        self.frames = nn.Sequential(nn.Conv1d(BANDS, 64, 5, padding=2), nn.ReLU(), nn.BatchNorm1d(64))
        self.projection = nn.Sequential(nn.Linear(128, dim), nn.BatchNorm1d(dim))  # no ReLU: half a sphere is not one

    def forward(self, spectra: Tensor) -> Tensor:
        hidden = self.frames(spectra)
        return self.projection(torch.cat([hidden.mean(2), hidden.std(2)], 1))


def utterances(voices: Tensor, labels: Tensor, frames: int) -> Tensor:
    """(N, BANDS, frames): each speaker's spectrum with what is said, and a gain of the channel."""
    noise = torch.randn(len(labels), BANDS, frames) + 0.5 * torch.randn(len(labels), 1, 1)
    return voices[labels][:, :, None] + noise


def main(steps: int = 80) -> float:
    """Return the equal error rate of speakers that were never seen."""
    torch.manual_seed(0)
    voices = 0.5 * torch.randn(2 * SPEAKERS, BANDS)
    net = SpeakerEncoder()
    head = hs.create_head("sphereface2", dim=32, num_classes=SPEAKERS, scale=20, margin=0.2)
    optimizer = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=3e-3)
    for step in range(steps):
        labels = torch.randint(SPEAKERS, (64,))
        spectra = utterances(voices, labels, frames=20 + 10 * (step % 4))  # crops of 20 to 50 frames
        loss = head(net(spectra), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    labels = SPEAKERS + torch.arange(4 * SPEAKERS) % SPEAKERS
    with torch.no_grad():
        x = nn.functional.normalize(net(utterances(voices, labels, frames=40)))
    left, right = torch.triu_indices(len(x), len(x), 1)
    eer = roc_curve((x[left] * x[right]).sum(1).numpy(), (labels[left] == labels[right]).numpy()).eer()
    print(f"EER {100 * eer:.1f} % of {len(left)} trials")
    return eer


if __name__ == "__main__":
    main()
