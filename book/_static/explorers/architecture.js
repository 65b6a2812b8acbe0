// §3, Figure 1: the parts of a Transformer, read upward, each leading to its section and its code.
// data: models, for each [name, parts] as annotated.figures.architecture.parts gives them; source, target and says, the
// pieces of the sentence.
annotatedExplorer.load("explorers/chart.js").then(() => annotatedExplorer("architecture", (root, data) => {
  "use strict";
  const { element, choice, live, spaced, drawn, atWidth } = annotatedExplorer;
  const BOX = 24, GAP = 19, BAND = 16, LINE = 16;
  // Where a kind of part is explained: its page, what the link says, and its place on the model on one page.
  const PLACES = {
    embedding: ["03-4-embeddings-and-softmax", "3.4 Embeddings and Softmax", "model-embedding"],
    positions: ["03-5-positional-encoding", "3.5 Positional Encoding", "model-positions"],
    self_attention: ["03-2-2-multi-head-attention", "3.2.2 Multi-Head Attention", "model-attention"],
    masked: ["03-2-3-applications-of-attention", "3.2.3 Applications of Attention", "model-masks"],
    cross_attention: ["03-2-3-applications-of-attention", "3.2.3 Applications of Attention", "model-attention"],
    feed_forward: ["03-3-feed-forward-networks", "3.3 Feed-Forward Networks", "model-feed-forward"],
    norm: ["03-1-encoder-and-decoder-stacks", "3.1 Encoder and Decoder Stacks", "model-sub-layer"],
    layers: ["03-1-encoder-and-decoder-stacks", "3.1 Encoder and Decoder Stacks", "model-layers"],
    logits: ["03-4-embeddings-and-softmax", "3.4 Embeddings and Softmax", "model-transformer"],
  };
  const chosen = { model: 0, part: null };

  const models = choice("model", data.models.map(([name], i) => [i, name]), 0, i => { chosen.model = i; show(); });
  const picture = element("div", { class: "explorer-picture architecture" });
  const said = live();
  root.append(models.element, picture, said.element);

  // "decoder.layers.0.cross_attention" → cross_attention; a layer that is closed is "layers", a norm "norm".
  function kind(part) {
    if (part.layers) return "layers";
    return part.name.split(".").pop();
  }
  function title(part, width) {
    if (!part.layers) return kind(part) === "norm" ? "+ norm" : kind(part);
    return (part.layers > 1 ? `layers.1 … ${part.layers}` : "layers.1") + (width < 160 ? "" : ": the same");
  }
  const place = part => PLACES[part.mask === "causal" ? "masked" : kind(part)];

  function tell(part) {
    const [section, name, code] = place(part);
    const words = [element("b", {}, part.name)];
    if (part.name !== "positions") words.push(` reads ${part.reads}${part.name === "embedding" ? " ids" : ""}`);
    if (part.memory) words.push(` from below and the memory, ${part.memory},`);
    words.push(`${part.name === "positions" ? "" : " and"} gives ${part.gives}.`);
    if (part.weights) words.push(` Weights: ${part.weights} (heads × asking × answering), ${part.mask} mask.`);
    if (part.name === "positions") words.push(" It is added to the embedding.");
    if (kind(part) === "norm") words.push(" It first adds what passed by.");
    if (part.layers) words.push(` ${part.layers} ${part.layers > 1 ? "layers" : "layer"} of its kind.`);
    words.push(" Learned numbers: ", element("data", { "data-name": "parameters", value: part.parameters },
      part.name === "logits" && !part.parameters ? "the embedding's" : part.parameters ? spaced(part.parameters) : "none"), ". ",
    element("a", { href: section + ".html" }, name), " · ", element("a", { href: "model-on-one-page.html#" + code }, "its code"));
    said.say(words);
  }

  function wrapped(words, width) {
    const lines = [""];
    words.forEach(word => {
      const longer = (lines[lines.length - 1] + " " + word).trim();
      if (longer.length * 6.8 > width && lines[lines.length - 1]) lines.push(word);
      else lines[lines.length - 1] = longer;
    });
    return lines;
  }

  function show() {
    const width = picture.clientWidth || 300, parts = data.models[chosen.model][1];
    const narrow = width < 320, LANE = narrow ? 10 : 15, column = (width - 2 * LANE - (narrow ? 22 : 34)) / 2, middle = width / 2, behind = [], boxes = [], over = [];
    const text = (x, y, said, more) => over.push(drawn("text", { x, y: y + 4, "text-anchor": "middle", ...more }, said));
    const path = (points, more) => behind.push(drawn("path", {
      d: points.map(([x, y], i) => `${i ? "L" : "M"}${x} ${y}`).join(""), class: "flow", ...more }));
    const arrow = (points, more) => path(points, { "marker-end": "url(#architecture-head)", ...more });

    // Heights are counted from the bottom, as the sheet is read; `at` turns them over at the end.
    const words = [wrapped(data.source, column), wrapped(data.target, column)];
    const foot = LINE * (Math.max(...words.map(lines => lines.length)) + 1);
    const memory = { top: 0, ends: [] };
    let height = 0;
    const sides = ["encoder", "decoder"].map((side, s) => ({
      side, left: s ? width - LANE - column : LANE, out: s ? width - LANE / 2 : LANE / 2, y: foot, lines: words[s],
    }));
    const up = [];
    sides.forEach(sheet => {
      const x = sheet.left + column / 2;
      let branch = null, open = null;
      parts.filter(part => part.side === sheet.side).forEach(part => {
        const name = kind(part);
        if (name === "self_attention" && open === null) open = sheet.y + GAP / 2 - 2;
        if (part.layers && open !== null) {
          up.push({ frame: [sheet.left - 5, open, column + 10, sheet.y + BAND - open], says: "layers.0", x: sheet.left + 1 });
          sheet.y += BAND;
        }
        const joined = name === "norm", from = sheet.y, bottom = joined ? from : from + GAP;
        const top = bottom + (part.weights ? BOX + LINE : joined ? BOX - 4 : BOX);
        if (!joined) {
          up.push({ arrow: [[x, from], [x, bottom]], label: part.name === "positions" ? part.gives : part.reads, x, y: from + GAP / 2 });
          if (sheet.y > foot + BOX + GAP && !part.layers && part.name !== "positions" && part.name !== "logits") branch = from + 5;
        } else {
          up.push({ arrow: [[x, branch], [sheet.out, branch], [sheet.out, (bottom + top) / 2],
            [sheet.side === "encoder" ? sheet.left : sheet.left + column, (bottom + top) / 2]] });
        }
        if (part.memory || (part.layers && sheet.side === "decoder")) memory.ends.push((bottom + top) / 2);
        up.push({ box: part, bottom, top, x: sheet.left });
        sheet.y = top;
        if (part.layers && sheet.side === "encoder") memory.top = top;
        height = Math.max(height, top);
      });
      if (sheet.side === "decoder") {
        const lines = wrapped(data.says, column);
        up.push({ arrow: [[x, sheet.y], [x, sheet.y + GAP]], label: parts[parts.length - 1].gives, x, y: sheet.y + GAP / 2 });
        lines.forEach((line, i) => up.push({ words: line, x, y: sheet.y + GAP + 8 + LINE * (lines.length - 1 - i) }));
        height = sheet.y + GAP + LINE * lines.length + 6;
      }
      sheet.lines.forEach((line, i) => up.push({ words: line, x, y: foot - LINE * (i + 1.5) }));
      up.push({ words: sheet.side === "encoder" ? "source" : narrow ? "target, shifted" : "target, shifted right", x, y: foot - LINE / 2, bold: true });
    });
    const at = y => height - y, flip = points => points.map(([x, y]) => [x, at(y)]);
    up.forEach(one => {
      if (one.frame) {
        const [x, y, w, h] = one.frame;
        behind.unshift(drawn("rect", { x, y: at(y + h), width: w, height: h, rx: 6, class: "layer" }));
        text(one.x, at(y + h) + BAND / 2, one.says, { "text-anchor": "start", class: "small" });
      }
      if (one.arrow) arrow(flip(one.arrow));
      if (one.label) text(one.x + 6, at(one.y), one.label, { "text-anchor": "start", class: "small" });
      if (one.words) text(one.x, at(one.y), one.words, one.bold ? { "font-weight": 700 } : {});
      if (one.box) boxes.push(drawBox(one.box, one.x, at(one.top), column, one.top - one.bottom));
    });
    const from = sides[0].left + column / 2, ends = memory.ends, rise = memory.top + 12;
    path(flip([[from, memory.top], [from, rise], [middle, rise]]), { class: "flow memory" });
    path(flip([[middle, Math.min(...ends)], [middle, Math.max(...ends, rise)]]), { class: "flow memory" });
    ends.forEach(y => arrow(flip([[middle, y], [sides[1].left, y]]), { class: "flow memory", "marker-end": "url(#architecture-memory)" }));
    text(from, at(rise + 10), `memory ${parts.find(part => part.memory).memory}`, { class: "memory", "font-weight": 700 });

    const head = (id, name) => drawn("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7,
      orient: "auto" }, drawn("path", { d: "M0 0L8 4L0 8Z", class: name }));
    const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group",
      "aria-label": `The ${data.models[chosen.model][0]} model, read upward` }, [
      drawn("defs", {}, [head("architecture-head", "head"), head("architecture-memory", "head memory")]),
      ...behind, ...boxes, ...over]);
    picture.style.minHeight = `${height}px`;
    picture.replaceChildren(svg);
    select(parts.find(part => part.name === (chosen.part || {}).name && part.side === chosen.part.side)
      || parts.find(part => part.memory));
  }

  function drawBox(part, x, y, width, height) {
    const name = kind(part), [section, about] = place(part);
    const link = drawn("a", { href: section + ".html", class: `part ${name}`, "data-part": `${part.side} ${part.name}`,
      "aria-label": `${part.side}, ${title(part, width)}: ${about}` }, [
      drawn("rect", { x, y, width, height, rx: 4 }),
      drawn("text", { x: x + width / 2, y: y + (part.weights ? 12 : height / 2) + 4, "text-anchor": "middle" }, title(part, width)),
    ]);
    if (part.weights) {
      const low = y + height - 7;
      link.append(drawn("text", { x: x + 6, y: low, class: "small" }, part.weights),
        drawn("text", { x: x + width - 6, y: low, "text-anchor": "end", class: "small mask" }, width < 140 ? part.mask : `${part.mask} mask`));
    }
    // A mouse or the keyboard chooses a box before it follows its link; a finger chooses first and follows then.
    let touched = false;
    link.addEventListener("pointerdown", event => { touched = event.pointerType === "touch" && chosen.part !== part; });
    link.addEventListener("click", event => { if (touched) event.preventDefault(); touched = false; select(part); });
    link.addEventListener("pointerenter", event => { if (event.pointerType !== "touch") select(part); });
    link.addEventListener("focus", () => select(part));
    return link;
  }

  function select(part) {
    chosen.part = part;
    picture.querySelectorAll("a.part").forEach(link =>
      link.classList.toggle("chosen", link.dataset.part === `${part.side} ${part.name}`));
    tell(part);
  }
  atWidth(picture, show);
}));
