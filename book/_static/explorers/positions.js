// §3.5: give each English piece another place, or none, and see what the model writes.
// data: numbers to choose from; places, the highest that can be chosen.
annotatedExplorer.load("numbers.js").then(() => annotatedExplorer("positions", (root, data, place) => {
  "use strict";
  const { element, choice, live, bookModel } = annotatedExplorer;
  const NONE = "none";
  const chosen = { number: data.numbers[0], places: [] };
  let model, blind, tokenizer;

  const numbers = choice("number", data.numbers, chosen.number, number => { chosen.number = Number(number); reset(); });
  const cards = element("div", { class: "positions-cards", role: "group", "aria-label": "The place of each piece" });
  const own = ids => ids.map((_, i) => i);
  // The page's own experiment: the two digits, first and fourth piece of 204 and 402, exchange their places.
  const presets = element("div", { class: "explorer-choice", role: "group", "aria-label": "Places at once" }, [
    element("span", {}, "places"),
    ...[["their own", ids => own(ids)],
      ["first and fourth exchanged", ids => own(ids).map(i => ({ 0: 3, 3: 0 })[i] ?? i)],
      ["all one later", ids => own(ids).map(i => i + 1)],
      ["all five later", ids => own(ids).map(i => i + 5)],
      ["none", ids => ids.map(() => NONE)]].map(([name, places]) =>
      element("button", { type: "button", onclick: () => { chosen.places = places(source()); show(); } }, name))]);
  const written = element("p", { class: "positions-german", lang: "de" });
  const said = live();
  root.append(numbers.element, cards, presets, element("p", { class: "positions-arrow" }, "the model writes"), written,
    said.element);

  const source = () => tokenizer.source(annotatedNumbers.spell(chosen.number, "en"));
  const numbersOf = {};
  function numberOf(german) { // of the numbers below ten thousand
    if (!Object.keys(numbersOf).length) {
      for (let n = 0; n < 10000; n += 1) numbersOf[annotatedNumbers.spell(n, "de")] = n;
    }
    return numbersOf[german];
  }

  // §3.4-3.5: E[ids] √d_model + PE, at the places that were chosen, then the encoder and the decoder as they are.
  function translate(ids, places) {
    const x = ids.map((id, i) => (places[i] === NONE ? blind.embed([id], "source")
      : model.embed([id], "source", places[i]))[0]);
    const memory = model.encoder.reduce((vectors, layer) => layer.forward(vectors, () => true), x);
    return tokenizer.decode(annotatedModel.greedySearch(model, ids, memory).tokens);
  }

  function reset() {
    chosen.places = own(source());
    show();
  }

  function show() {
    const ids = source(), focused = [...cards.querySelectorAll("select")].indexOf(document.activeElement);
    cards.replaceChildren(...ids.map((id, i) => {
      const select = element("select", { "aria-label": `place of ${tokenizer.piece(id)}`, onchange: () => {
        chosen.places[i] = select.value === NONE ? NONE : Number(select.value);
        show();
      } }, [NONE, ...Array.from({ length: data.places + 1 }, (_, place) => place)].map(place =>
        element("option", { value: place, selected: place === chosen.places[i] ? "" : null }, String(place))));
      return element("label", { class: chosen.places[i] === i ? null : "changed" }, [tokenizer.piece(id), select]);
    }));
    if (focused >= 0) cards.querySelectorAll("select")[focused].focus();
    const now = translate(ids, chosen.places), before = translate(ids, own(ids));
    written.textContent = now || "(nothing)";
    written.classList.toggle("changed", now !== before);
    const number = numberOf(now), words = element("i", {}, annotatedNumbers.spell(chosen.number, "en"));
    const moved = chosen.places.filter((place, i) => place !== i).length;
    const pieces = `${["No", "One", "Two", "Three"][moved] || moved} ${moved === 1 ? "piece" : "pieces"} of `;
    said.say([pieces, words, ` ${moved === 1 ? "has" : "have"} another place. The model writes `,
      number === undefined ? "no number below ten thousand." : element("data", { "data-name": "number", value: number }, String(number)),
      number === undefined ? "" : now === before ? ", as with its own places." : `, not ${chosen.number}.`]);
  }

  return bookModel(place).then(ready => {
    ({ model, tokenizer } = ready);
    blind = model.changed({ positionless: ["source"] });
    reset();
  });
}));
