// The book's trained Transformer in the reader's browser: the arithmetic of the package `annotated`, under its names,
// without a library. Vectors are arrays of numbers, a sentence is an array of vectors, and nothing is a batch.
//   annotatedModel.load().then(function ({ model, tokenizer }) { greedySearch(model, tokenizer.source("forty-two")) })
// The weights come with model-weights.js, which tools/book_live.py makes from the package's when the book is built.
// What is said of numbers is in numbers.js.
// tests/site/test_live.py holds all of this to PyTorch's numbers. A classic script, so that it works from disk too.
(function () {
  "use strict";

  // Arithmetic on vectors and matrices; a matrix is { rows, columns, data } as it lies in the file.

  // x Wᵀ + b, as torch.nn.Linear has it.
  function linear(x, weight, bias) {
    const y = new Array(weight.rows);
    for (let row = 0, at = 0; row < weight.rows; row++) {
      let sum = bias ? bias.data[row] : 0;
      for (let column = 0; column < weight.columns; column++, at++) sum += weight.data[at] * x[column];
      y[row] = sum;
    }
    return y;
  }
  const add = (x, y) => x.map((value, i) => value + y[i]);
  const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);

  // §3.2: book/03-2-attention. Softmax over what may be attended to; nothing allowed gives zero weights.
  function maskedSoftmax(scores, allowed) {
    const most = Math.max(...scores.filter((_, j) => allowed(j)));
    const raised = scores.map((score, j) => (allowed(j) ? Math.exp(score - most) : 0));
    const total = raised.reduce((sum, value) => sum + value, 0);
    return raised.map((value) => (total ? value / total : 0));
  }
  const softmax = (scores) => maskedSoftmax(scores, () => true);

  // §3.2.1, eq. 1: book/03-2-1-scaled-dot-product-attention. softmax(Q Kᵀ / √d_k) V, the scores and the weights.
  // `mask(i, j)` says whether query i may attend to key j; `divisor` stands in for √d_k.
  function scaledDotProductAttention(query, key, value, mask, divisor) {
    const scale = divisor || Math.sqrt(query[0].length);
    const scores = query.map((q) => key.map((k) => dot(q, k)));
    const weights = scores.map((row, i) => maskedSoftmax(row.map((s) => s / scale), (j) => !mask || mask(i, j)));
    const mixed = weights.map((row) => value[0].map((_, c) => row.reduce((sum, w, j) => sum + w * value[j][c], 0)));
    return { mixed, weights, scores };
  }

  // §3.2.2: book/03-2-2-multi-head-attention. `name` is the package's: "encoder.layers.0.self_attention".
  class MultiHeadAttention {
    constructor(model, name) {
      Object.assign(this, { model, name, heads: model.config.heads });
      for (const part of ["w_q", "w_k", "w_v", "w_o"]) this[part] = model.tensor(name + "." + part + ".weight");
    }
    // [head][position] → the head's part of the vector
    split(vectors) {
      const width = vectors[0].length / this.heads;
      return Array.from({ length: this.heads }, (_, h) => vectors.map((x) => x.slice(h * width, (h + 1) * width)));
    }
    // K Wᴷ and V Wⱽ, split into heads: what a decoder may keep.
    keysValues(memory) {
      return [this.w_k, this.w_v].map((weight) => this.split(memory.map((m) => linear(m, weight))));
    }
    // Q from x against `keys` and `values`; x are the positions from `first` on. A changed model may have another
    // mask, another divisor, or heads cut, which add nothing (annotated.analysis.interventions.cut_heads).
    attend(x, [keys, values], mask, first = 0) {
      const { masks = {}, divisor, cut = {} } = this.model.changes;
      const own = masks[this.name] || mask, allowed = (i, j) => own(first + i, j);
      const queries = this.split(x.map((vector) => linear(vector, this.w_q)));
      const found = queries.map((query, h) => scaledDotProductAttention(query, keys[h], values[h], allowed, divisor));
      if (this.model.record) this.model.record(this.name, found.map((head) => head.weights));
      const gone = cut[this.name] || [];
      const joined = x.map((_, i) => found.flatMap(({ mixed }, h) => mixed[i].map((v) => (gone.includes(h) ? 0 : v))));
      return joined.map((vector) => linear(vector, this.w_o));
    }
  }

  // §3.3, eq. 2: book/03-3-feed-forward-networks. max(0, x W₁ + b₁) W₂ + b₂, at each position alone.
  class PositionwiseFeedForward {
    constructor(model, name) {
      const both = (part) => ["weight", "bias"].map((kind) => model.tensor(`${name}.${part}.${kind}`));
      [this.w_1, this.w_2] = [both("w_1"), both("w_2")];
    }
    forward(x) {
      return x.map((vector) => linear(linear(vector, ...this.w_1).map((value) => Math.max(0, value)), ...this.w_2));
    }
  }

  // §3.1: book/03-1-encoder-and-decoder-stacks. LayerNorm(x + f(x)) at each position.
  class Sublayer {
    constructor(model, name) {
      [this.gain, this.bias] = ["weight", "bias"].map((part) => model.tensor(`${name}.norm.${part}`).data);
    }
    forward(x, added) {
      return x.map((vector, i) => {
        const sum = add(vector, added[i]), mean = sum.reduce((s, v) => s + v, 0) / sum.length;
        const variance = sum.reduce((s, v) => s + (v - mean) ** 2, 0) / sum.length;
        return sum.map((v, c) => ((v - mean) / Math.sqrt(variance + 1e-5)) * this.gain[c] + this.bias[c]);
      });
    }
  }

  // §3.1: self-attention, in a decoder attention to the memory, and the feed-forward network, each in a sub-layer.
  class Layer {
    constructor(model, name, decoder) {
      this.selfAttention = new MultiHeadAttention(model, name + ".self_attention");
      this.crossAttention = decoder ? new MultiHeadAttention(model, name + ".cross_attention") : null;
      this.feedForward = new PositionwiseFeedForward(model, name + ".feed_forward");
      this.sublayers = (decoder ? [1, 2, 3] : [1, 2]).map((n) => new Sublayer(model, `${name}.sublayer_${n}`));
    }
    // `kept` are a decoder's keys and values: of its past, which grows by x, and of the memory.
    forward(x, mask, kept, memoryMask) {
      const [attention, ...rest] = this.sublayers, last = rest.pop();
      const [keys, values] = this.selfAttention.keysValues(x);
      const past = kept ? kept.past : [keys.map(() => []), values.map(() => [])], first = past[0][0].length;
      [keys, values].forEach((side, s) => side.forEach((head, h) => past[s][h].push(...head)));
      x = attention.forward(x, this.selfAttention.attend(x, past, mask, first));
      if (kept) x = rest[0].forward(x, this.crossAttention.attend(x, kept.memory, memoryMask, first));
      return last.forward(x, this.feedForward.forward(x));
    }
  }

  // §3, Figure 1: book/03-model-architecture. `changes` are what a reader has done to it, each as in the package:
  //   cut: { attention's name: [heads] }, masks: { attention's name: (query, key) → may attend }, divisor: number,
  //   shift: { source or target: by }, positionless: ["source", "target"]
  class Transformer {
    constructor(weights, changes = {}) {
      Object.assign(this, { weights, changes, config: weights.config, record: null });
      const layers = (side) => Array.from({ length: this.config.layers }, (_, i) =>
        new Layer(this, `${side}.layers.${i}`, side === "decoder"));
      this.embedding = this.tensor("embedding.weight");
      [this.encoder, this.decoder] = [layers("encoder"), layers("decoder")];
    }
    changed(changes) { return new Transformer(this.weights, { ...this.changes, ...changes }); }
    tensor(name) { return this.weights.tensors[name]; }

    // §3.4-3.5: book/03-4-embeddings-and-softmax and book/03-5-positional-encoding. E[ids] √d_model + PE.
    embed(ids, use, start = 0) {
      const width = this.config.d_model, { shift = {}, positionless = [] } = this.changes;
      return ids.map((id, i) => Array.from({ length: width }, (_, c) => {
        const angle = (start + i + (shift[use] || 0)) / 10000 ** ((c - (c % 2)) / width);
        const position = positionless.includes(use) ? 0 : c % 2 ? Math.cos(angle) : Math.sin(angle);
        return this.embedding.data[id * width + c] * Math.sqrt(width) + position;
      }));
    }
    logits(x) { return linear(x, this.embedding); }

    // Source ids to memory, one vector a piece; padding is seen by nobody.
    encode(source) {
      const mask = (_, j) => source[j] !== this.config.pad_id;
      return this.encoder.reduce((x, layer) => layer.forward(x, mask), this.embed(source, "source"));
    }
    // Logits of every position at once: at t for the piece after target[t].
    decode(target, memory, source) { return this.read(target, this.start(source, memory)); }

    // The decoder's cache: `memory` stands in for the encoder's output, for interventions.
    start(source, memory = this.encode(source)) {
      const empty = () => Array.from({ length: this.config.heads }, () => []);
      const layers = this.decoder.map((layer) => ({
        past: [empty(), empty()], memory: layer.crossAttention.keysValues(memory),
      }));
      return { source, layers, length: 0 };
    }
    // Logits for the piece after `token`, the next target position.
    step(token, cache) { return this.read([token], cache)[0]; }

    read(tokens, cache) {
      const causal = (i, j) => j <= i, padding = (_, j) => cache.source[j] !== this.config.pad_id;
      const start = this.embed(tokens, "target", cache.length);
      cache.length += tokens.length;
      return this.decoder.reduce((x, layer, l) => layer.forward(x, causal, cache.layers[l], padding), start)
        .map((vector) => this.logits(vector));
    }
  }

  // §6.1 without a beam: the likeliest piece at every step, until EOS (annotated.translation.search). Every step's
  // distribution, too. A source of k pieces gets at most k + extraLength.
  function greedySearch(model, source, memory, extraLength = 50) {
    const { pad_id, bos_id, eos_id } = model.config, cache = model.start(source, memory);
    const tokens = [], distributions = [], limit = source.filter((id) => id !== pad_id).length + extraLength;
    for (let token = bos_id; distributions.length < limit; ) {
      distributions.push(softmax(model.step(token, cache)));
      const distribution = distributions[distributions.length - 1];
      token = distribution.indexOf(Math.max(...distribution));
      if (token === eos_id) break;
      tokens.push(token);
    }
    return { tokens, distributions };
  }

  // Interventions on what goes in (annotated.analysis.interventions): both return copies.
  const hide = (source, places, padId) => source.map((id, i) => (places.includes(i) ? padId : id));
  const swapVectors = (memory, other, places) => memory.map((vector, i) => (places.includes(i) ? other[i] : vector));

  // §5.1: book/05-1-training-data-and-batching. Byte-level byte-pair encoding (annotated.data.tokenizer): text is cut
  // before every blank and around every hyphen; each byte is written as one visible character, a blank as "Ġ".
  const SPECIAL = ["PAD", "BOS", "EOS"];
  class Tokenizer {
    constructor({ pieces, merges }, config) {
      Object.assign(this, { names: pieces, config, ids: new Map(pieces.map((piece, id) => [piece, id])) });
      this.ranks = new Map(merges.map((pair, rank) => [pair.join(" "), rank]));
      const visible = (b) => (b > 32 && b < 127) || (b > 160 && b !== 173);
      let hidden = 256;
      this.characters = Array.from({ length: 256 }, (_, b) => String.fromCharCode(visible(b) ? b : hidden++));
      this.bytes = new Map(this.characters.map((character, b) => [character, b]));
    }
    encode(text) {
      const words = text && (" " + text).match(/-| ?[^ -]+| /g);
      const spelled = (word) => Array.from(new TextEncoder().encode(word), (byte) => this.characters[byte]);
      return (words || []).flatMap((word) => this.merge(spelled(word)));
    }
    // The pair that was learned first is merged first, from the left.
    merge(parts) {
      for (;;) {
        const ranks = parts.slice(1).map((part, i) => this.ranks.get(parts[i] + " " + part) ?? Infinity);
        const best = Math.min(...ranks), at = ranks.indexOf(best);
        if (best === Infinity) return parts.map((part) => this.ids.get(part));
        parts = [...parts.slice(0, at), parts[at] + parts[at + 1], ...parts.slice(at + 2)];
      }
    }
    // What the encoder reads: the ids and EOS.
    source(text) { return [...this.encode(text), this.config.eos_id]; }
    raw(ids) {
      const written = ids.filter((id) => id >= SPECIAL.length).map((id) => this.names[id]).join("");
      const bytes = Array.from(written, (character) => this.bytes.get(character));
      return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
    }
    decode(ids) { return this.raw(ids).replace(/^ /, ""); }
    // One piece, to be read: "two" for " two".
    piece(id) { return SPECIAL[id] || this.raw([id]).replace(/^ +| +$/g, "") || "␣"; }
  }

  // The weights: float16 numbers in base64, and where in them each tensor lies.
  function readWeights({ config, tensors, data }) {
    const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
    const halves = new Uint16Array(bytes.buffer), read = {};
    for (const [name, { shape, begin, end }] of Object.entries(tensors)) {
      const values = Float64Array.from(halves.slice(begin / 2, end / 2), float16);
      read[name] = { rows: shape[0], columns: shape[1] || 1, data: values };
    }
    return { config, tensors: read };
  }
  function float16(bits) {
    const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
  }

  let loaded;
  // Loads the weights at the first call: a promise of { model, tokenizer }.
  function load() {
    loaded = loaded || annotatedExplorer.load("model-weights.js").then(() => {
      const weights = window.annotatedWeights;
      const tokenizer = new Tokenizer(weights.tokenizer, weights.config);
      return { model: new Transformer(readWeights(weights)), tokenizer };
    });
    return loaded;
  }

  window.annotatedModel = { load, greedySearch, hide, swapVectors, softmax };
})();
