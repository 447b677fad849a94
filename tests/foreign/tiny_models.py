"""Models of transformers with a handful of parameters, from configurations, and a tokenizer of whole words."""

from __future__ import annotations

from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'saccade[transformers]'")
transformers.logging.set_verbosity_error()

MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "looked", "at", "its", "own", "tail", "for", "hours"]
TEXT = "the cat looked at a mat"


def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {word: number for number, word in enumerate([*MARKS, *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


_SMALL: dict[str, Any] = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
_GROUPED: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "intermediate_size": 20,
}  # fmt: skip
_PARTS: dict[str, Any] = {
    "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 3, "decoder_attention_heads": 3,
    "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "d_model": 24, "decoder_start_token_id": 2, "forced_eos_token_id": None,
}  # fmt: skip

# The class, its configuration, and its settings.
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertModel", "BertConfig", _SMALL),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 64}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", _GROUPED),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**_GROUPED, "sliding_window": 3}),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**_GROUPED, "attn_logit_softcapping": 0.5, "sliding_window": 3}),
    "gpt_oss": (
        "GptOssForCausalLM", "GptOssConfig",
        {**_GROUPED, "sliding_window": 3, "num_local_experts": 2, "num_experts_per_tok": 1},
    ),
    "t5": (
        "T5ForConditionalGeneration", "T5Config",
        {"d_model": 24, "d_kv": 8, "d_ff": 20, "num_layers": 2, "num_heads": 3, "decoder_start_token_id": 0},
    ),
    "bart": ("BartForConditionalGeneration", "BartConfig", {**_PARTS, "max_position_embeddings": 64}),
    "albert": ("AlbertModel", "AlbertConfig", {**_SMALL, "embedding_size": 8}),
    "deberta": ("DebertaV2Model", "DebertaV2Config", _SMALL),
    "whisper": (
        "WhisperForConditionalGeneration", "WhisperConfig",
        {**_PARTS, "num_mel_bins": 8, "max_source_positions": 15, "max_target_positions": 20},
    ),
    "vit": ("ViTModel", "ViTConfig", {**_SMALL, "image_size": 12, "patch_size": 4}),
}  # fmt: skip


def tiny(kind: str, *, attention: str = "eager", **settings: Any) -> Any:
    """The model, with weights large enough that its attention is not flat."""
    name, configuration, own = KINDS[kind]
    own = {**own, **settings, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    if kind != "vit":  # with tied embeddings an untrained model repeats itself
        own |= {"vocab_size": len(MARKS) + len(WORDS), "tie_word_embeddings": False}
    torch.manual_seed(0)
    config = getattr(transformers, configuration)(**own)
    model = getattr(transformers, name)._from_config(config, attn_implementation=attention).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.3)
    return model
