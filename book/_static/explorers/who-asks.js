// 3.2.1: choose who asks, and by what the scores are divided. Data: { pieces, scores, width, asks }: `scores[i][j]` is
// the dot product of query i with key j in one head of this width, d_k; `asks` is the piece that asks at first.
annotatedExplorer("who-asks", function (root, data) {
  "use strict";
  const { element, range, choice, live, load, weight } = annotatedExplorer;
  const marks = 8; // the slider goes from 1 over √d_k, its middle, to d_k
  const divisorAt = (mark) => data.width ** (mark / marks);
  const short = (value) => String(Number(value.toFixed(2)));
  const fixed = (value, places) => value.toFixed(places).replace("-", "−");
  let asks = data.asks, divisor = divisorAt(marks / 2);

  const who = choice("Who asks?", data.pieces.map((piece, i) => [i, piece]), asks, function (i) {
    asks = Number(i);
    draw();
  });
  const slider = range({
    label: "Scores divided by", min: 0, max: marks, value: marks / 2,
    show: (mark) => (mark === marks / 2 ? "√d_k = " : mark === marks ? "d_k = " : "") + short(divisorAt(mark)),
  }, function (mark) {
    divisor = divisorAt(mark);
    draw();
  });
  const rows = element("tbody");
  const said = live();
  const head = ["key", "score", "divided", "weight"].map((name) => element("th", { scope: "col" }, name));
  root.classList.add("who");
  root.append(who.element, slider.element,
    element("table", {}, [element("thead", {}, element("tr", {}, head)), rows]), said.element);

  function draw() {
    const scores = data.scores[asks], weights = annotatedModel.softmax(scores.map((score) => score / divisor));
    rows.replaceChildren(...data.pieces.map((piece, j) => element("tr", {}, [
      element("th", { scope: "row" }, piece),
      element("td", {}, fixed(scores[j], 1)),
      element("td", {}, fixed(scores[j] / divisor, 2)),
      element("td", {}, [
        element("span", { class: "who-bar", style: `width:${100 * weights[j]}%;background:${weight(0.85)}` }),
        element("span", { class: "who-weight" }, fixed(weights[j], 2)),
      ]),
    ])));
    const order = weights.map((_, j) => j).sort((a, b) => weights[b] - weights[a]);
    const told = order.slice(0, 2).map((j) => `${data.pieces[j]} (${fixed(weights[j], 2)})`);
    const even = 1 / weights.reduce((sum, w) => sum + w * w, 0);
    said.say([element("i", {}, data.pieces[asks]), ` listens most to ${told[0]}, then to ${told[1]}. `,
      `Its weights are as if it heard ${fixed(even, 1)} pieces alike.`]);
  }

  return load("model.js").then(draw);
});
