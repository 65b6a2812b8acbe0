// §5.4: the smoothed loss of one piece, by the probability p that the right one gets; the others share the rest evenly.
// data: epsilon, the paper's; vocabularies, [name, V] each.
annotatedExplorer.load("explorers/chart.js").then(() => annotatedExplorer("smoothing", (root, data) => {
  "use strict";
  const { element, range, choice, live, spaced, atWidth, chart, legend, number } = annotatedExplorer;
  const SMOOTHED = "var(--aa-orange)", FLOOR = "var(--aa-violet)", PLAIN = "var(--aa-muted)";
  const chosen = { epsilon: data.epsilon, nines: 2, V: data.vocabularies[0][1] };

  // annotated.training.loss.label_smoothed_loss for one token: -(1 - ε) · log p - ε · the mean of all logarithms
  function smoothedLoss(p, epsilon, V) {
    const mean = (Math.log(p) + (V - 1) * Math.log((1 - p) / (V - 1))) / V;
    return -(1 - epsilon) * Math.log(p) - (epsilon ? epsilon * mean : 0);
  }
  // The axis of p counts nines: 0.9 at 1, 0.99 at 2. So the last step to certainty has room.
  const probability = nines => 1 - Math.pow(10, -nines);
  const nines = p => -Math.log10(1 - p);
  const digits = p => p.toFixed(p > 0.9995 ? 5 : 4);
  const FROM = nines(0.2), TO = 4.6;

  const epsilon = range({
    label: "ε", min: 0, max: 0.4, step: 0.01, value: chosen.epsilon, show: e => e.toFixed(2),
  }, value => { chosen.epsilon = value; show(); });
  const p = range({
    label: "p of the right piece", min: 0.1, max: 4.5, step: 0.02, value: chosen.nines,
    show: value => digits(probability(value)),
  }, value => { chosen.nines = value; show(); });
  const pieces = choice("vocabulary", data.vocabularies.map(([name, V]) => [V, `${name}, ${spaced(V)}`]), chosen.V,
    V => { chosen.V = V; show(); });
  const picture = element("div", { class: "explorer-picture", style: "height: 300px" });
  const said = live();
  root.append(epsilon.element, p.element, pieces.element, picture, legend([
    ["smoothed loss", SMOOTHED], ["its floor", FLOOR, "8 4"], ["plain loss", PLAIN, "2 3"]]), said.element);

  function show() {
    const { epsilon, V } = chosen, at = probability(chosen.nines);
    const ceiling = 1 - epsilon + epsilon / V, loss = smoothedLoss(at, epsilon, V), plain = smoothedLoss(at, 0, V);
    const floor = epsilon ? smoothedLoss(ceiling, epsilon, V) : 0;
    const curve = e => Array.from({ length: 181 }, (_, i) => {
      const place = FROM + (TO - FROM) * i / 180;
      return [place, smoothedLoss(probability(place), e, V)];
    });
    const plot = chart({
      width: picture.clientWidth || 300, height: 300,
      x: { from: FROM, to: TO, label: "p of the right piece", ticks: [nines(0.5), 1, 2, 3, 4],
        show: value => String(Number(probability(value).toFixed(4))) },
      y: { from: 0, to: Math.max(2, 1.6 * floor), label: "loss, in nats",
        show: value => String(Math.round(value * 10) / 10) },
    });
    plot.line(curve(0), PLAIN, "2 3");
    plot.rule("y", floor, FLOOR, "8 4");
    plot.line(curve(epsilon), SMOOTHED);
    if (epsilon) plot.dot(nines(ceiling), floor, FLOOR);
    plot.dot(chosen.nines, loss, SMOOTHED);
    picture.replaceChildren(plot.element);
    said.say([
      "With p = ", number("p", at, digits(at)), " the smoothed loss is ", number("loss", loss, loss.toFixed(3)),
      " nats and the plain loss ", number("plain", plain, plain.toFixed(3)), ". ",
      ...(epsilon ? ["The smoothed loss is lowest at p = ", number("ceiling", ceiling, ceiling.toFixed(4)), ", its floor: ",
        number("floor", floor, floor.toFixed(3)), " nats."]
        : ["With ε = 0 both are one loss, and certainty costs nothing."]),
    ]);
  }
  atWidth(picture, show);
}));
