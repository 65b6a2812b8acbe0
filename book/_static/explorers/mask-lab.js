// §3.2.3: paint the mask of the decoder's self-attention: who reaches whom over some layers, and what the model writes.
// data: number, of the sentence.
annotatedExplorer.load("numbers.js").then(() => annotatedExplorer("mask-lab", (root, data, place) => {
  "use strict";
  const { element, range, live, bookModel } = annotatedExplorer;
  const PRESETS = {
    "causal": (i, j) => j <= i,
    "all see all": () => true,
    "only itself": (i, j) => i === j,
    "itself and the one before": (i, j) => j === i || j === i - 1,
  };
  let model, tokenizer, source, target, labels, n, may, layers = 2;

  const mask = element("div", {}), reach = element("div", {});
  const presets = element("div", { class: "explorer-choice", role: "group", "aria-label": "Masks at once" }, [
    element("span", {}, "mask"), ...Object.entries(PRESETS).map(([name, rule]) =>
      element("button", { type: "button", onclick: () => { paint(rule); show(); } }, name))]);
  const depth = range({ label: "layers", min: 1, max: 4, value: layers }, value => { layers = value; show(); });
  const given = element("span", { class: "film-word", lang: "de" }), alone = element("span", { class: "film-word", lang: "de" });
  const said = live();
  root.append(presets, element("div", { class: "mask-grids" }, [mask, reach]), depth.element,
    element("ul", { class: "film-words" }, [
      element("li", {}, [element("span", {}, "given the right German, says next: "), given]),
      element("li", {}, [element("span", {}, "writing on its own: "), alone])]),
    said.element);

  function paint(rule) {
    may = Array.from({ length: n }, (_, i) => Array.from({ length: n }, (_, j) => rule(i, j)));
  }
  // Who has something of whom after k layers: each layer adds what the mask lets through, the sum keeps one's own.
  function reached(k) {
    const step = may.map((row, i) => row.map((seen, j) => seen || i === j));
    let all = step;
    for (let layer = 1; layer < k; layer += 1) {
      all = all.map(row => row.map((_, j) => row.some((seen, via) => seen && step[via][j])));
    }
    return all;
  }
  // What the model says with this mask in both layers of its decoder; places that are not painted stay causal.
  function say() {
    const rule = (i, j) => (i < n && j < n ? may[i][j] : j <= i);
    const masks = Object.fromEntries(model.decoder.map((_, l) => [`decoder.layers.${l}.self_attention`, rule]));
    const changed = model.changed({ masks }), memory = changed.encode(source);
    const next = changed.decode(target, memory, source).map(logits => logits.indexOf(Math.max(...logits)));
    return { next, written: tokenizer.decode(annotatedModel.greedySearch(changed, source, memory).tokens) };
  }

  function grid(title, cell) {
    const names = target.map(id => tokenizer.piece(id));
    return element("table", { class: "mask-grid" }, [
      element("caption", {}, title),
      element("thead", {}, element("tr", {}, [element("th", { scope: "col" }, "reads"),
        ...names.map(name => element("th", { scope: "col" }, element("span", {}, name)))])),
      element("tbody", {}, names.map((name, i) => element("tr", {}, [
        element("th", { scope: "row" }, name), ...names.map((_, j) => element("td", {}, cell(i, j, names)))])))]);
  }

  function show() {
    const seen = reached(layers), { next, written } = say();
    const at = [...mask.querySelectorAll("button")].indexOf(document.activeElement);
    mask.replaceChildren(grid("may look at", (i, j, names) => element("button", {
      type: "button", "aria-pressed": String(may[i][j]), "aria-label": `${names[i]} may look at ${names[j]}`,
      onclick: () => { may[i][j] = !may[i][j]; show(); },
    }, may[i][j] ? "✓" : "")));
    if (at >= 0) mask.querySelectorAll("button")[at].focus();
    reach.replaceChildren(grid(`has something of, after ${layers} ${layers === 1 ? "layer" : "layers"} (yes!: its answer)`, (i, j) =>
      element("span", { class: seen[i][j] ? (j === i + 1 ? "leak" : "seen") : "" },
        seen[i][j] ? (j === i + 1 ? "yes!" : "yes") : "no")));
    const leaks = seen.filter((row, i) => row[i + 1]).length;
    const right = annotatedNumbers.spell(data.number, "de");
    given.replaceChildren(...next.flatMap((id, i) => [i ? " · " : "",
      element("span", { class: id === labels[i] ? null : "film-wrong" }, tokenizer.piece(id))]));
    alone.className = written === right ? "film-word" : "film-word film-wrong";
    alone.textContent = written || "(nothing)";
    said.say([
      element("data", { "data-name": "leaks", value: leaks }, leaks ? `${leaks} of ${n - 1}` : "None"),
      ` of the predictions that have their answer to the right ${leaks === 1 ? "sees" : "see"} it over ${layers} `
        + `${layers === 1 ? "layer" : "layers"}. Of ${n} pieces the model, trained with the causal mask, predicts `,
      element("data", { "data-name": "right", value: next.filter((id, i) => id === labels[i]).length },
        String(next.filter((id, i) => id === labels[i]).length)), " rightly",
      written === right ? ", and on its own it writes the right word." : "; on its own it does not write the right word.",
    ]);
  }

  return bookModel(place).then(ready => {
    ({ model, tokenizer } = ready);
    source = tokenizer.source(annotatedNumbers.spell(data.number, "en"));
    const german = tokenizer.encode(annotatedNumbers.spell(data.number, "de"));
    target = [model.config.bos_id, ...german];
    labels = [...german, model.config.eos_id];
    n = target.length;
    paint(PRESETS.causal);
    show();
  });
}));
