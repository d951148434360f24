"""The model card: what a model is, of which data, how good, under which licence, and where it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LICENCE = (
    "To be stated by whoever publishes this model. The code is MIT; weights inherit the terms of the data they were "
    "trained on, and of a teacher's weights where there was one."
)
LIMITS = (
    "Measured on what stands under Results and on nothing else.",
    "Similarities depend on alignment and image quality; a threshold has to be set on images like those it is used on.",
    "No table of error rates by groups of people was made.",
    "Nothing here notices a photograph of a photograph (no liveness or presentation attack detection).",
)


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """The text of `README.md` in a model's folder, with the front matter that Hugging Face's Hub reads.

    Args:
        title: of the model.
        about: a sentence or two.
        recipe: how it was trained, as text of its own block.
        data: what it was trained on.
        results: by name of a measurement its value in words.
        licence: of the weights.
        not_for: what the model must not be used for.
        limits: a sentence each.

    Example:
        >>> "## Limits" in ModelCard(title="faces").text()
        True
    """

    title: str
    about: str = ""
    recipe: str = ""
    data: str = ""
    results: Mapping[str, str] = field(default_factory=dict)
    licence: str = LICENCE
    not_for: str = ""
    limits: tuple[str, ...] = LIMITS

    def text(self, name: str = "FOLDER") -> str:
        """The card as Markdown.

        Args:
            name: what `load_model` is given for this model.
        """
        rows = "".join(f"| {name} | {value} |\n" for name, value in self.results.items())
        sections = {
            "Use": "```python\nimport hypersphere as hs\n\n"
            f'embedder = hs.load_model("{name}")\n'
            'unit_vectors = embedder(["one.jpg", "two.jpg"])  # aligned images; (2, width)\n```\n'
            "How images must be prepared is in the embedding contract, `embedder.contract`.",
            "Data": self.data or "Not stated.",
            "Results": f"| measured on | result |\n|---|---|\n{rows}" if rows else "Not measured.",
            "Licence": self.licence,
            **({"What it must not be used for": self.not_for} if self.not_for else {}),
            "Limits": "\n".join(f"- {limit}" for limit in self.limits),
            "Recipe": f"```toml\n{self.recipe.rstrip()}\n```" if self.recipe else "Not stated.",
        }
        front = "---\nlibrary_name: hypersphere\npipeline_tag: image-feature-extraction\nlicense: other\n---\n"
        body = "\n\n".join(f"## {name}\n\n{text.rstrip()}" for name, text in sections.items())
        about = f"{self.about}\n\n" if self.about else ""
        return f"{front}\n# {self.title}\n\n{about}{body}\n"
