// "One sentence": step through the decoding loop. Data: { number, attention }: the running number, and the attention to
// the memory whose weights are drawn as lines, the mean of its heads.
annotatedExplorer.load("numbers.js").then(() => annotatedExplorer("loop", function (root, data, place) {
  "use strict";
  const { element, live, percent, weight, bookModel } = annotatedExplorer;
  let model, tokenizer, number = data.number, run, now = 0;

  const field = annotatedNumbers.field(number, function (typed) {
    number = typed;
    now = 0;
    search();
  }, (message) => said.say(message));
  const back = element("button", { type: "button", "aria-label": "one step back", onclick: () => go(-1) }, "◀");
  const on = element("button", { type: "button", "aria-label": "one step on", onclick: () => go(1) }, "▶");
  const which = element("b", {});
  const english = element("div", { class: "loop-pieces" });
  const lines = element("div", { class: "loop-lines", "aria-hidden": "true" });
  const german = element("div", { class: "loop-pieces", lang: "de" });
  const bars = element("div", { class: "loop-bars" });
  const said = live();
  root.classList.add("loop");
  root.append(
    element("div", { class: "loop-ask" }, [field,
      element("span", { class: "loop-steps" }, [back, which, on])]),
    english, lines, german, bars, said.element,
  );

  const name = (id) => (tokenizer.raw([id]).startsWith(" ") ? "␣" : "") + tokenizer.piece(id);

  // Run the whole loop once, and keep what each step had read, its distribution and where it looked.
  function search() {
    const source = tokenizer.source(annotatedNumbers.spell(number, "en")), looks = [], watched = model.changed({});
    watched.record = function (attention, heads) {
      if (attention !== data.attention) return;
      const [first] = heads, mean = first[0].map((_, j) => heads.reduce((sum, head) => sum + head[0][j], 0) / heads.length);
      looks.push(mean);
    };
    const { tokens, distributions } = annotatedModel.greedySearch(watched, source);
    const ended = distributions.length > tokens.length ? [model.config.eos_id] : [];
    run = { source, looks, distributions, written: [...tokens, ...ended] };
    draw();
  }
  function go(by) {
    now = Math.max(0, Math.min(run.written.length - 1, now + by));
    draw();
  }

  function draw() {
    const { source, looks, distributions, written } = run, look = looks[now], m = source.length, n = written.length;
    which.textContent = `step ${now} of ${n - 1}`;
    back.disabled = now === 0;
    on.disabled = now === n - 1;
    english.replaceChildren(...source.map((id, j) =>
      element("span", { style: `background:${weight(look[j])}`, class: look[j] > 0.55 ? "strong" : null }, tokenizer.piece(id))));
    german.replaceChildren(...written.map((id, t) =>
      element("span", { class: t < now ? "read" : t === now ? "now" : "ahead" }, t > now ? "…" : tokenizer.piece(id))));
    const drawn = look.map((w, j) => `<line x1="${(100 * (j + 0.5)) / m}" y1="0" x2="${(100 * (now + 0.5)) / n}" y2="100"` +
      ` style="stroke-width:${(1 + 7 * w).toFixed(2)};opacity:${Math.min(1, 0.06 + w).toFixed(3)}"/>`);
    lines.innerHTML = `<svg viewBox="0 0 100 100" preserveAspectRatio="none">${drawn.join("")}</svg>`;

    const shares = distributions[now], best = shares.map((_, id) => id).sort((a, b) => shares[b] - shares[a]).slice(0, 3);
    bars.replaceChildren(...best.flatMap((id, place) => [
      element("span", { class: place ? null : "loop-best" }, name(id)),
      element("span", { class: "loop-bar" }, element("span", { style: `width:${100 * shares[id]}%` })),
      element("span", { class: "loop-share" }, percent(shares[id])),
    ]));
    const read = ["BOS", ...written.slice(0, now).map((id) => tokenizer.piece(id))];
    const most = look.indexOf(Math.max(...look));
    said.say([`Step ${now} reads `, element("i", {}, read.join(" ")), " and the memory, and writes ",
      element("b", {}, tokenizer.piece(written[now])), `. It looks most at ${tokenizer.piece(source[most])}, weight ${look[most].toFixed(2)}.`]);
  }

  return bookModel(place).then(function (ready) {
    ({ model, tokenizer } = ready);
    search();
  });
}));
