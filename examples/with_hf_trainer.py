"""Hugging Face Trainer: a model whose forward returns a loss and embeddings, and a callback that moves schedules.

pip install 'transformers[torch]' && python examples/with_hf_trainer.py
"""

import tempfile

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

import hypersphere as hs


class Recognizer(torch.nn.Module):
    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
        self.head = hs.create_head("sphereface2", dim=16, num_classes=num_classes, scale=20)

    def forward(self, features: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        embeddings = self.net(features)
        loss = {} if labels is None else {"loss": self.head(embeddings, labels)}
        return {**loss, "embeddings": embeddings}


class Advance(TrainerCallback):
    """Once per step of the optimizer, however many batches it accumulates."""

    def on_step_end(self, args: object, state: object, control: object, **objects: object) -> None:
        objects["model"].head.advance()


def main(epochs: int = 3) -> list[float]:
    """Return the logged losses."""
    torch.manual_seed(0)
    centers = torch.randn(10, 20)
    data = [{"features": centers[k % 10] + 0.3 * torch.randn(20), "labels": k % 10} for k in range(640)]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, num_train_epochs=epochs, per_device_train_batch_size=64, learning_rate=0.01, logging_steps=5,
            report_to=[], save_strategy="no", use_cpu=not torch.cuda.is_available(), disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(model=Recognizer(10), args=arguments, train_dataset=data, callbacks=[Advance()])
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    print(f"loss {float(losses[0]):.3f} -> {float(losses[-1]):.3f}")
    return [float(loss) for loss in losses]


if __name__ == "__main__":
    main()
