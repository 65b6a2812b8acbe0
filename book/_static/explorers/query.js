// §3.2: a query slides from one to another, and every key answers with a share of its value.
// data: names of the keys; queries, the first and the last; says, what their places say next; keys and values, a row each.
annotatedExplorer.load("explorers/chart.js").then(() => annotatedExplorer("query", (root, data) => {
  "use strict";
  const { element, range, live, spaced, percent, signed, number } = annotatedExplorer;
  const { names, queries, says, keys, values } = data;
  const DIVISORS = [0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32], d_k = queries[0].length;
  const limit = Math.max(...values.flat().map(Math.abs));
  const chosen = { place: 0.4, divisor: 1 };

  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
  // §3.2.1: softmax(q Kᵀ / √d_k), after one more division, and the hard look-up's best key
  function lookUp(query, divisor) {
    const scores = keys.map(key => dot(query, key) / Math.sqrt(d_k) / divisor), most = Math.max(...scores);
    const powers = scores.map(score => Math.exp(score - most)), sum = powers.reduce((a, b) => a + b);
    return { weights: powers.map(power => power / sum), best: scores.indexOf(most) };
  }
  const mixed = weights => values[0].map((_, j) => dot(weights, values.map(value => value[j])));

  const place = range({
    label: `query, from ${says[0]} to ${says[1]}`, min: 0, max: 1, step: 0.005, value: chosen.place,
    show: share => percent(share),
  }, share => { chosen.place = share; show(); });
  const divisor = range({
    label: "scores also divided by", min: 0, max: DIVISORS.length - 1, value: DIVISORS.indexOf(1),
    show: i => spaced(DIVISORS[i]),
  }, i => { chosen.divisor = DIVISORS[i]; show(); });

  const strip = () => element("span", { class: "query-strip", "aria-hidden": "true" },
    values[0].map(() => element("i", {})));
  const paint = (bar, vector) => vector.forEach((x, j) => { bar.children[j].style.background = signed(x / limit); });
  const rows = names.map((name, i) => {
    const row = { bar: element("i", {}), share: element("span", { class: "query-share" }), value: strip() };
    row.element = element("li", {}, [element("span", {}, name),
      element("span", { class: "query-bar", "aria-hidden": "true" }, row.bar), row.share, row.value]);
    paint(row.value, values[i]);
    return row;
  });
  const mix = strip(), taken = strip();
  const result = (name, bar) => element("li", {}, [element("b", {}, name), bar]);
  const said = live();
  root.append(place.element, divisor.element,
    element("p", { class: "query-head", "aria-hidden": "true" }, [
      element("span", {}, "key"), element("span", {}, "weight"), element("span", {}, "value, weighted")]),
    element("ul", { class: "query-keys" }, rows.map(row => row.element)),
    element("ul", { class: "query-mix", "aria-hidden": "true" }, [
      result("soft: the mix of all", mix), result("hard: the best one's value", taken)]),
    said.element);

  function show() {
    const query = queries[0].map((x, j) => (1 - chosen.place) * x + chosen.place * queries[1][j]);
    const { weights, best } = lookUp(query, chosen.divisor), answer = mixed(weights);
    rows.forEach((row, i) => {
      row.element.classList.toggle("best", i === best);
      row.bar.style.width = `${100 * weights[i]}%`;
      row.value.style.opacity = 0.12 + 0.88 * weights[i];
      row.share.replaceChildren(number(`weight-${i}`, weights[i], percent(weights[i])));
    });
    paint(mix, answer);
    paint(taken, values[best]);
    const order = weights.map((_, i) => i).sort((a, b) => weights[b] - weights[a]).slice(0, 3);
    const apart = answer.map((x, j) => x - values[best][j]);
    const away = Math.sqrt(dot(apart, apart) / dot(values[best], values[best]));
    said.say([
      `Most to ${order.map(i => `${names[i]} (${percent(weights[i])})`).join(", ")}. The hard look-up takes the value of `,
      element("b", {}, names[best]), "; the mix differs from it by ", number("away", away, percent(away)), " of its length.",
    ]);
  }
  show();
}));
