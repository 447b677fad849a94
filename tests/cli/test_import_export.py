"""``saccade export``: what it says of the folder it wrote."""

import re

import pytest

transformers = pytest.importorskip("transformers", reason="the transformers library is not installed")
pytestmark = pytest.mark.usefixtures("module_unchecked")

SIZES = {"hidden_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 7}
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefg", *(f"##{letter}" for letter in "abcdefg")]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("BertForSequenceClassification", "AutoModelForSequenceClassification"),
        ("BertForTokenClassification", "AutoModelForTokenClassification"),
        ("BertForPreTraining", "AutoModelForPreTraining"),
        ("BertForMaskedLM", "AutoModelForMaskedLM"),
        ("BertForNextSentencePrediction", "AutoModelForNextSentencePrediction"),
        ("BertModel", "AutoModel"),
    ],
)
def test_the_class_that_is_named_loads_all_that_was_written(tmp_path, command, kind, told):
    config = transformers.BertConfig(vocab_size=len(PIECES), max_position_embeddings=11, pad_token_id=0, **SIZES)
    getattr(transformers, kind)(config).save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs" / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    assert command("import", tmp_path / "theirs", "--out", tmp_path / "run")[0] == 0
    status, out, _ = command("export", tmp_path / "run", "--to", "huggingface", "--out", tmp_path / "back")
    named = re.search(r"transformers\.(\w+)\.from_pretrained\('(.*)'\)", out)
    assert status == 0 and named is not None and named.groups() == (told, str(tmp_path / "back"))
    model, info = getattr(transformers, told).from_pretrained(tmp_path / "back", output_loading_info=True)
    assert type(model).__name__ == kind
    assert not info["unexpected_keys"] and not info["missing_keys"]
