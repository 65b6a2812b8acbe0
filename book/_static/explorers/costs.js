// §4, Table 1 with the reader's own sizes: what each layer type multiplies, how much of it has to wait, how long its paths are.
// data: start { n, d, k, r }; presets, [name, n, d] each; lengths, widths, kernels and windows to choose from.
annotatedExplorer.load("explorers/chart.js").then(() => annotatedExplorer("costs", (root, data) => {
  "use strict";
  const { element, range, choice, live, spaced, power, number } = annotatedExplorer;
  const chosen = { ...data.start, whole: false };
  root.classList.add("costs");

  // annotated.complexity.layers: `mixing` is what Table 1 counts, `projections` what it leaves out.
  const cross = (n, reach) => Math.max(1, Math.ceil((n - 1) / reach));
  function layersToCross(n, base) {
    let layers = 1;
    for (let seen = base; seen < n; seen *= base) layers += 1;
    return layers;
  }
  function recurrent(gates) {
    return ({ n, d }) => ({ mixing: 2 * gates * n * d * d, projections: 0, sequential: n, path: n });
  }
  const LAYERS = {
    "self-attention": ({ n, d }) =>
      ({ mixing: 2 * n * n * d, projections: 4 * n * d * d, sequential: 4, path: 1 }),
    "restricted": ({ n, d, r }) =>
      ({ mixing: 2 * (2 * r - 1) * Math.ceil(n / r) * r * d, projections: 4 * n * d * d, sequential: 4,
        path: cross(n, (r - 1) / 2) }),
    "tanh RNN": recurrent(1),
    "GRU": recurrent(3),
    "LSTM": recurrent(4),
    "convolution": ({ n, d, k }) =>
      ({ mixing: k * n * d * d, projections: 0, sequential: 1, path: cross(n, (k - 1) / 2) }),
    "dilated": ({ n, d, k }) =>
      ({ mixing: k * n * d * d, projections: 0, sequential: 1, path: layersToCross(n, (k + 1) / 2) }),
    "separable": ({ n, d, k }) =>
      ({ mixing: k * n * d + n * d * d, projections: 0, sequential: 2, path: cross(n, (k - 1) / 2) }),
  };
  // The length at which self-attention does as much as another; not above 0: at no length.
  function breakEven(name, { d, k, whole }) {
    const matrices = { "tanh RNN": 2, "GRU": 6, "LSTM": 8, "convolution": k }[name]; // its work is so many times n·d²
    return (matrices - (whole ? 4 : 0)) * d / 2;
  }

  const sliders = {};
  [["n", "length n", data.lengths], ["d", "width d", data.widths], ["k", "kernel k", data.kernels],
    ["r", "neighbourhood r", data.windows]].forEach(([name, label, values]) => {
    sliders[name] = range({
      label, min: 0, max: values.length - 1, value: values.indexOf(chosen[name]), show: i => spaced(values[i]),
    }, i => { chosen[name] = values[i]; show(); });
  });
  const presets = element("div", { class: "explorer-choice", role: "group", "aria-label": "n and d of" },
    [element("span", {}, "n and d of"), ...data.presets.map(([name, n, d]) =>
      element("button", { type: "button", onclick: () => {
        Object.assign(chosen, { n, d });
        sliders.n.set(data.lengths.indexOf(n));
        sliders.d.set(data.widths.indexOf(d));
        show();
      } }, name))]);
  const counted = choice("count", [["table", "what Table 1 counts"], ["whole", "the whole layer"]], "table", value => {
    chosen.whole = value === "whole";
    show();
  });
  const rows = element("ul", { class: "costs-layers" });
  const said = live();
  root.append(presets, ...Object.values(sliders).map(slider => slider.element), counted.element,
    element("p", { class: "query-head" }, "multiplications of one layer, products in a row, path from end to end"), rows, said.element);

  const short = count => (count < 1e7 ? spaced(count) : power(count));
  const times = share => (share < 0.001 ? "under 0.001" : spaced(share, share < 1 ? 2 : 3));

  function show() {
    const costs = Object.entries(LAYERS).map(([name, cost]) => {
      const { mixing, projections, sequential, path } = cost(chosen);
      return { name, work: mixing + (chosen.whole ? projections : 0), sequential, path };
    });
    const most = Math.max(...costs.map(cost => cost.work)), least = Math.min(...costs.map(cost => cost.work));
    rows.replaceChildren(...costs.map(({ name, work, sequential, path }) => element("li", {
      class: name === "self-attention" ? "ours" : null,
    }, [
      element("span", { class: "costs-name" }, name),
      element("span", { class: "query-bar" }, element("i", { style: `width: ${(100 * work / most).toFixed(2)}%` })),
      element("span", { class: "costs-work" }, number(`work-${name}`, work, short(work))),
      element("span", { class: "costs-rest" }, [
        number(`sequential-${name}`, sequential, spaced(sequential)), " in a row, path ",
        number(`path-${name}`, path, spaced(path))]),
    ])));
    const own = costs[0].work, against = name => own / costs.find(cost => cost.name === name).work;
    const evens = ["tanh RNN", "GRU", "LSTM", "convolution"].map(name => [name, breakEven(name, chosen)]);
    said.say([
      `For ${spaced(chosen.n)} vectors of ${spaced(chosen.d)} numbers, the fewest multiplications: `,
      costs.filter(cost => cost.work === least).map(cost => cost.name).join(" and "), ". ",
      "Self-attention does ", number("rnn", against("tanh RNN"), times(against("tanh RNN"))), " times the work of the tanh RNN, ",
      number("lstm", against("LSTM"), times(against("LSTM"))), " times that of the LSTM. It does as much as ",
      ...evens.flatMap(([name, n], i) => [`${i ? ", " : ""}the ${name} at `,
        n > 0 ? number(`even-${name}`, n, `n = ${spaced(n)}`) : number(`even-${name}`, 0, "no length")]),
      ".",
    ]);
  }
  show();
}));
