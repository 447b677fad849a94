"""Plants one fault at a time in the networks and says which of them the tests of the papers notice.

    python scripts/mutate_models.py              # all faults, some minutes
    python scripts/mutate_models.py luong han    # those whose name contains one of these words

A fault is a small change that a person could make by mistake: a sign, a missing bias, an order, a scale, an initialisation.
Each is planted in a copy of the package, against which only the paper's own file of tests/papers runs. The exit status is 1
if a fault goes unnoticed, or if the source no longer contains its place exactly once.
"""

# ruff: noqa: E501 (a fault is easier to read in one line)

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# (file of tests/papers, file of the package) → the faults: name, what stands there, what stands there instead
# fmt: off
FAULTS: dict[tuple[str, str], list[tuple[str, str, str]]] = {
    ('bahdanau2015', 'models/rnnsearch.py'): [
        ('rnnsearch: the start reads the forward state', 'final[:, 1]))', 'final[:, 0]))'),
        ('rnnsearch: no tanh at the start', 'torch.tanh(self.start_layer(final[:, 1]))', 'self.start_layer(final[:, 1])'),
        ('rnnsearch: the readout uses the state after the step', '            states.append(state)\n            weights, context, state = self._look_and_move(embedded[:, offset], state, memory, offset, lens, steps)\n', '            weights, context, state = self._look_and_move(embedded[:, offset], state, memory, offset, lens, steps)\n            states.append(state)\n'),
        ('rnnsearch: the readout has no bias', '2 * config.maxout, bias=config.bias)', '2 * config.maxout, bias=False)'),
        ('rnnsearch: padding is visible', 'return padding(real)\n        shown', 'return padding(torch.ones_like(real))\n        shown'),
        ('rnnsearch: v does not start at 0', 'init_groundhog(self)', 'init_groundhog(self); nn.init.normal_(self.v, std=0.01)'),
        ('rnnsearch: the gate of copying is turned', 'copied = (1 - written) * weights.float()\n        mixed = written *', 'copied = written * weights.float()\n        mixed = (1 - written) *'),
        ('rnnsearch: the query matrix starts like the rest', 'nn.init.normal_(self.query_weight, std=0.001)', 'nn.init.normal_(self.query_weight, std=0.01)'),
        ('rnnsearch: the update gate keeps', 'self.cell = Recurrent(config.cell, m + 2 * n, n, bias=config.bias, update="write")', 'self.cell = Recurrent(config.cell, m + 2 * n, n, bias=config.bias, update="keep")'),
    ],
    ('bahdanau2015', 'nn/recurrent.py'): [
        ('gated unit: the update gate is turned', 'keep = update if self.update == "keep"', 'keep = update if self.update == "write"'),
        ('gated unit: backward states are not turned back', 'torch.cat([ahead, reverse_within(mirrored, whole)]', 'torch.cat([ahead, mirrored]'),
        ('recurrent: the final state is the last padded one', 'hidden = outputs[:, -1] if lengths is None else at_end(outputs, lengths)', 'hidden = outputs[:, -1]'),
        ('groundhog: biases start at 0.01', 'nn.init.zeros_(parameter)', 'nn.init.constant_(parameter, 0.01)'),
        ('groundhog: matrices start wider', 'nn.init.normal_(parameter, std=0.01)', 'nn.init.normal_(parameter, std=0.1)'),
    ],
    ('cheng2016', 'models/lstmn.py'): [
        ('lstmn: the summary does not ask', 'queries[step] + self.summary(summary)', 'queries[step] + 0 * self.summary(summary)'),
        ('lstmn: keys are of the summary', 'tape.write(self.key(hidden)', 'tape.write(self.key(summary)'),
        ("lstmn: the cell's memory is the last, not the found one", 'summary, memory = found.squeeze(1).to(query.dtype).chunk(2, dim=-1)', 'memory, summary = found.squeeze(1).to(query.dtype).chunk(2, dim=-1)'),
        ('lstmn: the classifier has no relu', 'functional.relu(self.judge(self._drop(mean)))', 'self.judge(self._drop(mean))'),
        ('lstmn: a bias in W_h', 'self.key = nn.Linear(hidden, hidden, bias=False)', 'self.key = nn.Linear(hidden, hidden)'),
        ('lstmn: the mean includes padding', 'mean = mean_of(states, lengths)', 'mean = states.mean(1)'),
        ('lstmn: one visible entry too few', 'where: dict[str, Any] = {"window": padding(state.read + step)', 'where: dict[str, Any] = {"window": padding((state.read + step - 1).clamp(min=0))'),
        ('lstmn: tied output has no projection', 'self.project = nn.Linear(n, m, bias=False) if tied and n != m', 'self.project = nn.Linear(n, m) if tied and n != m'),
    ],
    ('cho2014', 'models/seq2seq.py'): [
        ('cho: no tanh on the summary', 'context = torch.tanh(self.summary(final[0][:, -1]))', 'context = self.summary(final[0][:, -1])'),
        ('cho: the summary is of the first layer', 'self.summary(final[0][:, -1])', 'self.summary(final[0][:, 0])'),
        ('cho: the readout does not see the word', 'self.readout(torch.cat([hidden, embedded, context]', 'self.readout(torch.cat([hidden, 0 * embedded, context]'),
    ],
    ('cho2014', 'nn/recurrent.py'): [
        ('gated unit: resets after the matrix', 'self.candidate(reset * hidden)', 'reset * self.candidate(hidden)'),
        ('gated unit: update and reset are swapped', 'reset_x, update_x, candidate_x =', 'update_x, reset_x, candidate_x ='),
        ('maxout: pools halves, not neighbours', 'x.unflatten(-1, (-1, 2))\n    return pairs.amax(dim=-1)', 'x.unflatten(-1, (2, -1))\n    return pairs.amax(dim=-2)'),
        ('groundhog: recurrent matrices are not orthogonal', 'nn.init.orthogonal_(block)', 'nn.init.normal_(block, std=0.01)'),
    ],
    ('content_and_pointer', 'attention/layers.py'): [
        ('cosine: β may be negative', 'return cosine(nn.functional.softplus(self.raw_beta))', 'return cosine(self.raw_beta)'),
    ],
    ('content_and_pointer', 'models/pointer.py'): [
        ('pointer: visited points are hidden', 'if offset and not self.config.revisit:', 'if offset:'),
        ('pointer: the input is the state, not the point', 'inputs = torch.cat([self.first.expand(B, 1, d), source], dim=1)', 'inputs = torch.cat([self.first.expand(B, 1, d), source.flip(1)], dim=1)'),
        ('pointer: logits are the weights', 'weights.clamp_min(torch.finfo(weights.dtype).tiny).log()', 'weights'),
        ('pointer: starts between ±0.1', 'nn.init.uniform_(parameter, -0.08, 0.08)', 'nn.init.uniform_(parameter, -0.1, 0.1)'),
        ('pointer: the first input is a point', 'memory.inputs[rows, token]', 'memory.inputs[rows, token.clamp(min=1)]'),
        ('pointer: no end mark', 'return Memory(inputs, states @ self.key_weight.mT, mask_of(lengths + 1, S + 1), final)', 'return Memory(inputs, states @ self.key_weight.mT, mask_of(lengths, S + 1), final)'),
    ],
    ('devlin2018', 'data/texts/masking.py'): [
        ('bert: the classes of pairs are swapped', 'np.where(elsewhere, ELSEWHERE, FOLLOWS)', 'np.where(elsewhere, FOLLOWS, ELSEWHERE)'),
        ("bert: B begins at A's start", 'second = np.where(elsewhere, begin, parted)', 'second = np.where(elsewhere, begin, start)'),
        ('bert: a chosen word is always masked', 'kind < MASKED, marks.mask,', 'kind < 2, marks.mask,'),
        ('bert: special marks are chosen too', 'lot = np.where(inside, lot >> np.uint64(1), np.uint64(2**64 - 1))', 'lot = lot >> np.uint64(1)'),
    ],
    ('devlin2018', 'models/bert.py'): [
        ('bert: the pooler has no tanh', 'return torch.tanh(self.pooler(states[:, 0]))', 'return self.pooler(states[:, 0])'),
        ('bert: the pooler reads the last position', 'self.pooler(states[:, 0])', 'self.pooler(states[:, -1])'),
        ('bert: no norm of the embeddings', 'self.drop(self.norm(embedded))', 'self.drop(embedded)'),
        ('bert: no bias of the words', 'self.trunk.words.weight, self.bias)', 'self.trunk.words.weight)'),
        ('bert: gelu left out of the transform', 'activated(self.transform(states), self.config.activation)', 'self.transform(states)'),
        ('bert: segments left out', ' + self.positions.weight[:S] + segment', ' + self.positions.weight[:S] + 0 * segment'),
        ('bert: the start is not truncated', 'nn.init.trunc_normal_(module.weight, std=sigma, a=-2 * sigma, b=2 * sigma)', 'nn.init.normal_(module.weight, std=sigma)'),
        ('bert: gelu by erf is the one by tanh', 'return "gelu_tanh" if self.gelu == "tanh" else "gelu"', 'return "gelu_tanh"'),
        ('bert: the label is read without the pooler', 'pooled = self.trunk.pool(self.trunk(tokens, lengths, segments, lens=lens))', 'pooled = self.trunk(tokens, lengths, segments, lens=lens)[:, 0]'),
        ('bert: no norm in the transform', 'self.transform_norm(activated(', '(activated('),
        ('bert: pre-norm', '            "post",', '            "pre",'),
    ],
    ('luo2018', 'models/attentive_tagger.py'): [
        ('tagger: no tanh on the joined states', 'states = torch.tanh(self.join(torch.cat([read, states], dim=-1)))', 'states = self.join(torch.cat([read, states], dim=-1))'),
        ('tagger: state and context are swapped', 'torch.cat([read, states], dim=-1)', 'torch.cat([states, read], dim=-1)'),
        ('tagger: characters are averaged', 'self.encoder(embedded, lengths).amax(1)', 'self.encoder(embedded, lengths).mean(1)'),
        ('tagger: no bias of the emissions', 'self.output = nn.Linear(states, labels)', 'self.output = nn.Linear(states, labels, bias=False)'),
        ('tagger: lstm characters in the wrong order', 'spelt = hidden.flatten(1)', 'spelt = hidden.flip(1).flatten(1)'),
    ],
    ('luo2018', 'nn/crf.py'): [
        ('crf: transitions are transposed in the path', 'transitions[before, tags]  # [B, S]', 'transitions[tags.clamp(max=K), before]  # [B, S]'),
        ('crf: the stop is left out of Z', '+ transitions[:-1, -1].double()).logsumexp(-1)', ').logsumexp(-1)'),
        ('crf: the start is left out of the best path', 'best, taken = transitions[K, :K] + emissions[:, 0]', 'best, taken = emissions[:, 0]'),
        ('crf: the best path is scored without the stop', 'path = [(best + transitions[:K, K]).argmax(-1)]', 'path = [best.argmax(-1)]'),
    ],
    ('luong2015', 'attention/scores.py'): [
        ('general: W is transposed', 'return Prepared(_projected(key, self.weight, "key"))', 'return Prepared(_projected(key, self.weight.mT, "key"))'),
    ],
    ('luong2015', 'attention/windows.py'): [
        ('local-p: σ is D', '(2 * (self.radius / 2) ** 2)', '(2 * self.radius**2)'),
        ('local-p: the window rounds up', 'self.centre.detach().floor()', 'self.centre.detach().ceil()'),
        ('local-m: one word too few', '.abs() <= self.radius', '.abs() < self.radius'),
    ],
    ('luong2015', 'models/luong.py'): [
        ('luong: no tanh on the attentional vector', 'return torch.tanh(self.combine(torch.cat([context, hidden], dim=-1)))', 'return self.combine(torch.cat([context, hidden], dim=-1))'),
        ('luong: state and context are swapped', 'torch.cat([context, hidden], dim=-1)', 'torch.cat([hidden, context], dim=-1)'),
        ('luong: input feeding gives the state', 'return attentional, Step(moved, attentional)', 'return attentional, Step(moved, hidden)'),
        ('luong: positions count from 1', 'return lengths.unsqueeze(-1) * where - 1', 'return lengths.unsqueeze(-1) * where'),
        ('luong: positions by the padded length', 'self.centre(hidden, within), radius)', 'self.centre(hidden, torch.full_like(within, memory.annotations.shape[1])), radius)'),
        ('luong: no tanh in the predicted position', 'inner = torch.tanh(functional.linear(hidden.to(wide), self.position.weight.to(wide)))', 'inner = functional.linear(hidden.to(wide), self.position.weight.to(wide))'),
        ('luong: starts between ±0.08', 'nn.init.uniform_(parameter, -0.1, 0.1)', 'nn.init.uniform_(parameter, -0.08, 0.08)'),
        ('luong: annotations are not turned back', 'annotations = reverse_within(annotations, lengths - 1)', 'annotations = annotations'),
        ('luong: a bias in W_c', 'self.combine = nn.Linear(2 * n, n, bias=False)', 'self.combine = nn.Linear(2 * n, n)'),
        ('luong: dropout is missing before the output', 'return self.output(self._drop(attentional)), moved', 'return self.output(attentional), moved'),
        ('luong: dropout is missing on the source', 'self.encoder(self._drop(self.source_embedding(source)), lengths)', 'self.encoder(self.source_embedding(source), lengths)'),
    ],
    ('mikolov2013', 'data/texts/skipgrams.py'): [
        ('skip-gram: noise is the unigram', 'POWER = 0.75', 'POWER = 1.0'),
    ],
    ('mikolov2013', 'models/skipgram.py'): [
        ('skip-gram: one table for both', 'torch.bmm(self.context(others)', 'torch.bmm(self.embedding(others)'),
        ('skip-gram: u starts like v', 'nn.init.zeros_(self.context.weight)', 'nn.init.uniform_(self.context.weight, -0.5 / config.embedding, 0.5 / config.embedding)'),
        ('skip-gram: v starts wider', '-0.5 / config.embedding, 0.5 / config.embedding)\n        nn.init.zeros_', '-0.5, 0.5)\n        nn.init.zeros_'),
        ('skip-gram: drawn context words count', 'masked_fill(same, -torch.inf)', 'masked_fill(same & False, -torch.inf)'),
    ],
    ('parikh2016', 'models/siamese.py'): [
        ('siamese: the difference keeps its sign', '(x - y).abs()', '(x - y)'),
        ('siamese: the alignment has no relu', 'torch.relu(self.project(candidate_states)), torch.relu(self.project(question_states))', 'self.project(candidate_states), self.project(question_states)'),
        ('siamese: no relu in the comparison', 'compared = torch.relu(self.pair(', 'compared = (self.pair('),
        ('siamese: question padding is visible', 'window=padding(question_lengths), site=ALIGNMENT', 'site=ALIGNMENT'),
        ('siamese: candidate padding is visible in the pool', 'window = padding(candidate_lengths)\n', 'window = padding(0 * candidate_lengths + candidate_states.shape[1])\n'),
        ('siamese: the aggregate has no maximum', 'return torch.cat([whole, max_of(compared, candidate_lengths)], dim=-1)', 'return torch.cat([whole, whole], dim=-1)'),
    ],
    ('retain2016', 'models/retain.py'): [
        ('retain: reads forwards', 'layer(reverse_within(rows, lengths), lengths)[0]', 'layer(rows, lengths)[0]'),
        ('retain: no tanh in β', 'beta = torch.tanh(self.beta(', 'beta = (self.beta('),
        ('retain: no bias in β', 'self.beta = nn.Linear(config.beta, config.embedding)', 'self.beta = nn.Linear(config.beta, config.embedding, bias=False)'),
        ('retain: the visit is the mean of its codes', 'visits = functional.dropout(embedded.sum(2)', 'visits = functional.dropout(embedded.mean(2)'),
        ('retain: a bias in α', 'self.alpha = nn.Linear(config.alpha, 1, bias=False)', 'self.alpha = nn.Linear(config.alpha, 1)'),
        ('retain: no dropout of the context', 'functional.dropout(context, self.config.dropout_context, self.training)', 'context'),
    ],
    ('sutskever2014', 'models/seq2seq.py'): [
        ('sutskever: the end mark is reversed too', 'source = reverse_within(source, lengths - 1)', 'source = reverse_within(source, lengths)'),
        ('sutskever: starts between ±0.1', 'nn.init.uniform_(parameter, -0.08, 0.08)', 'nn.init.uniform_(parameter, -0.1, 0.1)'),
        ('sutskever: the memory cell starts at 0', 'return Memory(final[0].new_zeros(len(lengths), 0), final)', 'return Memory(final[0].new_zeros(len(lengths), 0), (final[0], *[0 * f for f in final[1:]]))'),
    ],
    ('sutskever2014', 'nn/search/beam_search.py'): [
        ('search: forbidden tokens may be written', '        if self.task.forbidden:\n            log_probs[:,', '        if False:\n            log_probs[:,'),
    ],
    ('sutskever2014', 'nn/search/selection.py'): [
        ('search: the second likeliest continues', 'going = torch.argsort(ends.to(torch.int8), dim=-1, stable=True)[:, :W]', 'going = torch.argsort(ends.to(torch.int8), dim=-1, stable=True)[:, -W:]'),
        ('search: totals forget the tokens before', 'sums = (totals.unsqueeze(-1) + log_probs).flatten(1)', 'sums = (0 * totals.nan_to_num(0, 0, 0).unsqueeze(-1) + log_probs).flatten(1)'),
    ],
    ('vaswani2017', 'attention/layers.py'): [
        ('multi-head: the projections have no bias', 'self.value = nn.Linear(value_width, width, bias=bias)', 'self.value = nn.Linear(value_width, width, bias=False)'),
        ('multi-head: heads are not split but interleaved', 'x.view(B, N, self.heads, D // self.heads).transpose(1, 2)', 'x.view(B, N, D // self.heads, self.heads).permute(0, 3, 1, 2)'),
    ],
    ('vaswani2017', 'attention/scores.py'): [
        ('scaled dot: not scaled', 'return width**-0.5 if self.scaled else 1.0', 'return 1.0'),
    ],
    ('vaswani2017', 'models/transformer.py'): [
        ('transformer: source embeddings are not scaled', 'embedding(source) * self.config.width**0.5', 'embedding(source)'),
        ('transformer: target embeddings are not scaled', 'embedded = self.target_embedding(tokens) * self.config.width**0.5', 'embedded = self.target_embedding(tokens)'),
        ('transformer: positions without dropout', 'states = self._drop(self.target_positions.add(embedded, places))', 'states = self.target_positions.add(embedded, places)'),
    ],
    ('vaswani2017', 'nn/cache.py'): [
        ('transformer: the decoder sees the future', '        return causal\n', '        return mask(torch.ones(1, 1, dtype=torch.bool))\n'),
    ],
    ('vaswani2017', 'nn/positions.py'): [
        ('positions: sines first', 'torch.stack([turned.sin(), turned.cos()], dim=-1).flatten(-2)', 'torch.stack([turned.sin(), turned.cos()], dim=-2).flatten(-2)'),
        ('positions: wavelengths to 1,000', 'SLOWEST = 10_000.0', 'SLOWEST = 1_000.0'),
    ],
    ('vaswani2017', 'nn/transformer.py'): [
        ('transformer: pre-norm and post-norm are swapped', 'self.first, self.dropout = layout.norm == "pre", layout.dropout', 'self.first, self.dropout = layout.norm == "post", layout.dropout'),
        ('transformer: no norm after the last pre-norm layer', 'eps=self.epsilon) if self.norm == "pre" else nn.Identity()', 'eps=self.epsilon) if self.norm == "x" else nn.Identity()'),
        ('transformer: gelu for relu', 'if activation == "relu":\n        return functional.relu(x)', 'if activation == "relu":\n        return functional.gelu(x)'),
        ('transformer: cross-attention sees padding', 'options: dict[str, Any] = {"window": padding(lengths)', 'options: dict[str, Any] = {"window": padding(0 * lengths + keys.shape[2])'),
        ('transformer: dropout of the sum, not of the change', 'moved = states + functional.dropout(change, self.dropout, self.training)', 'moved = functional.dropout(states + change, self.dropout, self.training)'),
        ('transformer: embedding not of unit variance', 'nn.init.normal_(embedding.weight, std=width**-0.5)', 'nn.init.normal_(embedding.weight)'),
    ],
    ('vaswani2017', 'training/optimisers.py'): [
        ('noam: warm-up to the power of −1', 'count * train.warmup**-1.5', 'count * train.warmup**-1.0'),
    ],
    ('wang2016', 'models/atae_lstm.py'): [
        ("atae: the sum of the aspect's words", 'total / count.clamp(min=1).unsqueeze(-1)', 'total'),
        ('atae: the look sees the aspect', 'lengths - count - (count > 0).long()', 'lengths'),
        ('atae: W_p and W_x are swapped', 'self.from_look(look) + self.from_last(found)', 'self.from_look(found) + self.from_last(look)'),
        ('atae: no tanh', 'found = torch.tanh(self.from_look(look) + self.from_last(found))', 'found = self.from_look(look) + self.from_last(found)'),
        ('atae: dropout missing before the output', 'logits: Tensor = self.output(self._drop(found))', 'logits: Tensor = self.output(found)'),
        ('atae: the printed scorer is the summed one', 'if self.config.scorer == "summed":\n            return additive', 'if True:\n            return additive'),
    ],
    ('yang2016', 'attention/layers.py'): [
        ('pool: the bias is left out', 'learned = self.bias if self.kind == "additive"', 'learned = 0 * self.bias if self.kind == "additive"'),
    ],
    ('yang2016', 'models/han.py'): [
        ("han: sentences share the words' pool", 'document = self._pooled(self.sentence_pool', 'document = self._pooled(self.word_pool'),
        ('han: padding sentences are counted', 'counts = (lengths > 0).sum(1)', 'counts = (lengths >= 0).sum(1)'),
        ('han: an lstm for the gru at the sentences', 'self.sentence_encoder = Recurrent(config.encoder,', 'self.sentence_encoder = Recurrent("lstm",'),
        ('han: mean pool counts padding', 'return mean_of(states, lengths) if self.config.pool', 'return states.mean(1) if self.config.pool'),
    ],
    ('zaremba2014', 'models/recurrent_lm.py'): [
        ('zaremba: no dropout before the output', 'self.output(self.project(self._drop(hidden)))', 'self.output(self.project(hidden))'),
        ('zaremba: dropout from state to state', 'states, after = self.cells(self._drop(self.embedding(tokens)), lengths, before)', 'states, after = self.cells(self._drop(self.embedding(tokens)), lengths, tuple(self._drop(b) for b in before))'),
    ],
    ('zhang2019', 'attention/spatial.py'): [
        ('sagan: no residual', 'return self.gamma * change + x', 'return self.gamma * change'),
        ('sagan: mean pooling', 'functional.max_pool2d(key, 2), functional.max_pool2d(value, 2)', 'functional.avg_pool2d(key, 2), functional.avg_pool2d(value, 2)'),
        ('sagan: queries and keys are swapped', '_places(query), _places(key), _places(value)', '_places(key), _places(query), _places(value)'),
        ('sagan: γ starts at 1', 'self.gamma = nn.Parameter(torch.zeros(()))', 'self.gamma = nn.Parameter(torch.ones(()))'),
        ("sagan: values as narrow as the paper's", 'values or max(1, channels // 2)', 'values or max(1, channels // 8)'),
    ],
    ('zhou2016', 'models/att_blstm.py'): [
        ('att-blstm: no tanh before the output', 'found = torch.tanh(self.pooled(both, lengths, lens=lens))', 'found = self.pooled(both, lengths, lens=lens)'),
        ('att-blstm: reads the tanh of the states', 'query, states, states, score=additive(self.w)', 'query, states, torch.tanh(states), score=additive(self.w)'),
        ('att-blstm: the mean of the directions', '.sum(-2) if summed', '.mean(-2) if summed'),
        ('att-blstm: a gru', 'Recurrent("lstm", config.embedding', 'Recurrent("gru", config.embedding'),
        ('att-blstm: no dropout of the states', 'return self._drop(states, self.config.dropout_states)', 'return states'),
    ],
}
# fmt: on


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only faults whose name contains one of these")
    words = parser.parse_args().words
    noticed = total = 0
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "src")
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "assets"))
        # Python tells compiled files apart by time and size, which a fault may leave as they are.
        environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
        for (tests, file), faults in FAULTS.items():
            path = source / "saccade" / file
            whole = path.read_text(encoding="utf-8")
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
            command += ["--tb=no", f"tests/papers/test_{tests}.py"]
            for name, old, new in faults:
                if words and not any(word in name for word in words):
                    continue
                total += 1
                if whole.count(old) != 1:
                    print(f"not found  {name}: src/saccade/{file}", flush=True)
                    continue
                path.write_text(whole.replace(old, new), encoding="utf-8")
                found = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
                noticed += found.returncode == 1
                failed = [line for line in found.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
                state = {0: "UNNOTICED", 1: "noticed"}.get(found.returncode, f"exit {found.returncode}")
                print(f"{state:10} {name}: {failed[0].partition('::')[2] if failed else ''}", flush=True)
            path.write_text(whole, encoding="utf-8")
    print(f"noticed {noticed} of {total}")
    return 0 if noticed == total else 1


if __name__ == "__main__":
    sys.exit(main())
