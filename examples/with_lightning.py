"""Lightning: the head is a part of the LightningModule, its schedules move after each optimizer step.

pip install lightning && python examples/with_lightning.py
"""

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

import hypersphere as hs


class Recognizer(lightning.LightningModule):
    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
        self.head = hs.create_head("sphereface", dim=16, num_classes=num_classes, margin=2)
        self.losses: list[float] = []

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        inputs, labels = batch
        loss = self.head(self.net(inputs), labels)
        self.losses.append(loss.item())
        return loss

    def optimizer_step(self, *arguments: object, **options: object) -> None:
        super().optimizer_step(*arguments, **options)
        self.head.advance()  # SphereFace is annealed: once per step of the optimizer, not per batch

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def main(epochs: int = 3) -> list[float]:
    """Return the loss of every step."""
    torch.manual_seed(0)
    centers, labels = torch.randn(10, 20), torch.arange(640) % 10
    data = TensorDataset(centers[labels] + 0.3 * torch.randn(640, 20), labels)
    model = Recognizer(num_classes=10)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(max_epochs=epochs, accelerator="cpu", enable_model_summary=False, **quiet)
    trainer.fit(model, DataLoader(data, batch_size=64, shuffle=True))
    print(f"loss {model.losses[0]:.2f} -> {model.losses[-1]:.2f} in {int(model.head.objective.step)} steps")
    return model.losses


if __name__ == "__main__":
    main()
