// 3.2.2: cut heads, and read what the model then writes. Data: { number, total, attentions: [{ name, label, wrong }] }:
// of `total` unseen numbers `wrong` go wrong without head 0, without head 1, without both.
annotatedExplorer.load("numbers.js").then(() => annotatedExplorer("heads", function (root, data, place) {
  "use strict";
  const { element, toggle, live, bookModel } = annotatedExplorer;
  let model, tokenizer, number = data.number;
  const cut = Object.fromEntries(data.attentions.map(({ name }) => [name, []]));

  const field = annotatedNumbers.field(number, function (typed) {
    number = typed;
    draw();
  }, (message) => said.say(message));
  const english = element("i", {});
  const switches = [];
  const most = Math.max(...data.attentions.flatMap(({ wrong }) => wrong.slice(0, -1)));
  const body = data.attentions.map(({ name, label, wrong }) => element("tr", {}, [
    element("th", { scope: "row" }, label),
    ...wrong.slice(0, -1).map((count, head) => element("td", {}, switchOf(name, label, head, count))),
    element("td", { class: "heads-count" }, "≈ " + wrong[wrong.length - 1]),
  ]));

  // A switch per head, with what it is worth: the more numbers go wrong without it, the stronger its mark.
  function switchOf(name, label, head, count) {
    const made = toggle([element("span", {}, `head ${head}`), element("small", {}, [`≈ ${count}`, element("span", {}, " wrong")])], false, function (pressed) {
      cut[name] = pressed ? [...cut[name], head] : cut[name].filter((one) => one !== head);
      draw();
    });
    made.element.style.setProperty("--worth", `${(100 * count) / most}%`);
    made.element.setAttribute("aria-label", `cut head ${head} of ${label}: ${count} of ${data.total} wrong without it`);
    switches.push(made);
    return made.element;
  }
  const clear = element("button", { type: "button", onclick: function () {
    for (const name in cut) cut[name] = [];
    switches.forEach((one) => one.set(false));
    draw();
  } }, "restore all");
  const german = element("p", { class: "heads-german", lang: "de" });
  const said = live();
  root.classList.add("heads");
  const columns = ["attention", "cut head 0", "cut head 1", "both"].map((name) => element("th", { scope: "col" }, name));
  root.append(
    element("div", { class: "heads-ask" }, [field, english]),
    element("table", {}, [element("thead", {}, element("tr", {}, columns)), element("tbody", {}, body)]),
    clear, german, said.element,
  );

  function draw() {
    const text = annotatedNumbers.spell(number, "en"), right = annotatedNumbers.spell(number, "de");
    const { tokens } = annotatedModel.greedySearch(model.changed({ cut }), tokenizer.source(text));
    const written = tokenizer.decode(tokens), shown = written.length > 120 ? written.slice(0, 120) + " …" : written;
    english.textContent = text;
    german.textContent = shown || "(nothing)";
    german.classList.toggle("wrong", written !== right);
    const gone = data.attentions.filter(({ name }) => cut[name].length);
    const heads = gone.map(({ name, label }) => `${label}, head ${[...cut[name]].sort().join(" and ")}`);
    const what = heads.length ? "Without " + heads.join("; ") + ": " : "All heads at work: ";
    said.say([what, written === right ? "right. " : ["wrong; right is ", element("i", { lang: "de" }, right), ". "], counted(gone)].flat());
  }

  // The count that was measured for what is cut now, where there is one.
  function counted(gone) {
    if (gone.length !== 1) return gone.length ? "How many numbers this costs was not counted." : "";
    const [{ name, wrong }] = gone, heads = cut[name];
    return `Of ${data.total} unseen numbers ≈ ${wrong[heads.length > 1 ? wrong.length - 1 : heads[0]]} go wrong so.`;
  }

  return bookModel(place).then(function (ready) {
    ({ model, tokenizer } = ready);
    draw();
  });
}));
