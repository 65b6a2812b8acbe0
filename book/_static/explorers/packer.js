// §5.1: pairs packed into batches by a budget of tokens, in an order the reader chooses.
// data: pairs, [source, target] ids each, without special ones; bits, the two random numbers below 65 536 of each pair, and
// ranks, for the order of the batches: the chance that annotated.data.batches draws from its seed; budgets and noises to
// choose from; chosen, { budget, noise }, what is shown at first.
annotatedExplorer.load("explorers/chart.js").then(() => annotatedExplorer("packer", (root, data) => {
  "use strict";
  const { element, range, choice, live, spaced, percent, drawn, atWidth, number } = annotatedExplorer;
  const { pairs, bits, ranks, budgets, noises } = data, SIDES = ["source", "target"];
  const UNIT = 2, GAP = 6; // pixels: of a place, between batches
  const chosen = { ...data.chosen, side: 0 };
  const width = pairs.map(pair => 1 + Math.max(...pair)); // with one special id, on the longer side

  // annotated.data.batches.order_by_length: by the longer side, then by how much longer the source is, rising and falling
  // in turn. Both keys have chance added, up to 1 + noise, in numbers of single precision.
  const orders = {};
  function order(noise) {
    return (orders[noise] = orders[noise] || ordered(noise));
  }
  function ordered(noise) {
    const scale = Math.fround((1 + noise) / 65536), chance = bit => Math.fround(bit * scale);
    const keys = pairs.map(([source, target], i) => {
      const longer = Math.floor(Math.fround(chance(bits[i][0]) + Math.max(source, target)));
      const excess = Math.fround(Math.fround(chance(bits[i][1]) + source) - target);
      return { longer, excess: longer % 2 ? -excess : excess };
    });
    return pairs.map((_, i) => i).sort((a, b) => keys[a].longer - keys[b].longer || keys[a].excess - keys[b].excess);
  }
  // annotated.data.batches.batch_plan: cut where the next pair would not fit, then in random order.
  function plan(budget, noise) {
    const batches = [];
    let widest = 0;
    order(noise).forEach(place => {
      const batch = batches[batches.length - 1];
      widest = Math.max(widest, width[place]);
      if (batch && widest * (batch.length + 1) <= budget) batch.push(place);
      else {
        batches.push([place]);
        widest = width[place];
      }
    });
    return batches.map((_, i) => i).sort((a, b) => ranks[a] - ranks[b]).map(i => batches[i]);
  }
  // annotated.data.batches.padding_of: the places of all batches on one side, and how many of them hold a token.
  function counted(batches, side) {
    const lengths = batches.map(batch => batch.map(place => 1 + pairs[place][side]));
    const sum = numbers => numbers.reduce((total, one) => total + one, 0);
    return { places: sum(lengths.map(of => of.length * Math.max(...of))), tokens: sum(lengths.map(sum)) };
  }

  const named = noise => (noise === 0 ? "sorted by length" : noise > 1000 ? "unsorted" : `length noise ${noise}`);
  const budget = range({
    label: "budget, in tokens", min: 0, max: budgets.length - 1, value: budgets.indexOf(chosen.budget),
    show: i => spaced(budgets[i]),
  }, i => { chosen.budget = budgets[i]; show(); });
  const noise = choice("order", noises.map(value => [value, named(value)]), chosen.noise,
    value => { chosen.noise = Number(value); show(); });
  const side = choice("drawn", SIDES.map((name, i) => [i, name + "s"]), chosen.side,
    value => { chosen.side = Number(value); show(); });
  const picture = element("div", { class: "explorer-picture packer" });
  const key = (name, text) => element("li", {}, [element("span", { class: name }), text]);
  const said = live();
  root.append(budget.element, noise.element, side.element, picture, element("ul", { class: "explorer-legend packer-key" },
    [key("packer-token", "a token: a place that is asked for"), key("packer-padding", "padding: computed for nothing")]),
    said.element);

  // Batches stand side by side, in shelves, in the order in which they are trained on: [left, top, lengths] and the height.
  function placed(batches, across) {
    const found = [];
    let x = 0, top = 0, tall = 0;
    batches.forEach(batch => {
      const lengths = batch.map(place => 1 + pairs[place][chosen.side]), wide = UNIT * Math.max(...lengths);
      if (x + wide > across && x > 0) [x, top, tall] = [0, top + tall + GAP, 0];
      found.push([x, top, lengths]);
      x += wide + GAP;
      tall = Math.max(tall, UNIT * lengths.length);
    });
    return { found, height: top + tall };
  }
  const room = {}; // by the width there is: the height that the tallest picture needs, so that nothing jumps
  function tallest(across) {
    room[across] = room[across] || Math.max(...noises.flatMap(noise => budgets.map(budget =>
      placed(plan(budget, noise), across).height)));
    return room[across];
  }

  function show() {
    const across = (picture.clientWidth || 300) - 2;
    const batches = plan(chosen.budget, chosen.noise), { found, height } = placed(batches, across);
    picture.style.height = `${tallest(across) + 2}px`;
    picture.replaceChildren(drawn("svg", {
      width: across + 2, height: height + 2, viewBox: `-1 -1 ${across + 2} ${height + 2}`, "aria-hidden": "true",
    }, [
      drawn("pattern", { id: "packer-hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse" }, [
        drawn("rect", { width: 5, height: 5, class: "packer-ground" }), drawn("path", { d: "M0 5L5 0", class: "packer-line" })]),
      ...found.map(([x, y, lengths], i) => drawn("g", { "data-places": batches[i].join(" ") }, [
        drawn("rect", { x, y, width: UNIT * Math.max(...lengths), height: UNIT * lengths.length, fill: "url(#packer-hatch)",
          class: "packer-frame" }),
        drawn("path", { class: "packer-token", d: lengths.map((length, row) =>
          `M${x} ${y + UNIT * row}h${UNIT * length}v${UNIT}H${x}Z`).join("") })]))]));

    const [sources, targets] = SIDES.map((_, i) => counted(batches, i));
    const padding = ({ places, tokens }) => (places - tokens) / places;
    const both = padding({ places: sources.places + targets.places, tokens: sources.tokens + targets.tokens });
    const rows = batches.map(batch => batch.length);
    const largest = Math.max(...batches.map(batch => batch.length * Math.max(...batch.map(place => width[place]))));
    const share = (name, value) => number(name, value, percent(value));
    said.say([
      `${pairs.length} pairs, ${named(chosen.noise)}: `, number("batches", batches.length, String(batches.length)),
      batches.length === 1 ? " batch, of " : " batches, of ", number("fewest", Math.min(...rows), String(Math.min(...rows))), " to ",
      number("most", Math.max(...rows), String(Math.max(...rows))), " pairs; the largest has ",
      number("largest", largest, spaced(largest)), " places on its longer side. ", share("both", both), " of all places are padding, ",
      share("source", padding(sources)), " of the sources' and ", share("target", padding(targets)), " of the targets'.",
    ]);
  }
  atWidth(picture, show);
}));
