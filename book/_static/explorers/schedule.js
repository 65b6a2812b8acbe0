// §5.3: equation (3) with the reader's own warm-up and width, beside the paper's base model and this book's run.
// data: base, big and book, each { d_model, warmup, factor, steps }; warmups and widths to choose from.
annotatedExplorer.load("explorers/chart.js").then(() => annotatedExplorer("schedule", (root, data) => {
  "use strict";
  const { element, range, choice, live, spaced, atWidth, power, chart, legend, number } = annotatedExplorer;
  const { base, big, book, warmups, widths } = data;
  const chosen = { warmup: 2 * base.warmup, d_model: base.d_model, log: false };
  const YOURS = "var(--aa-orange)", THEIRS = "var(--aa-violet)", OURS = "var(--aa-muted)";

  // annotated.training.schedule.learning_rate
  function learningRate(step, dModel, warmupSteps, factor) {
    const rise = step * Math.pow(warmupSteps, -1.5), fall = Math.pow(step, -0.5);
    return factor * Math.pow(dModel, -0.5) * Math.min(rise, fall);
  }

  const warmup = range({
    label: "warm-up steps", min: 0, max: warmups.length - 1, value: warmups.indexOf(chosen.warmup),
    show: i => spaced(warmups[i]),
  }, i => { chosen.warmup = warmups[i]; show(); });
  const width = range({
    label: "d_model", min: 0, max: widths.length - 1, value: widths.indexOf(chosen.d_model),
    show: i => spaced(widths[i]),
  }, i => { chosen.d_model = widths[i]; show(); });
  const presets = element("div", { class: "explorer-choice", role: "group", "aria-label": "Both as in" },
    [element("span", {}, "both as in"), ...[["base", base], ["big", big], ["this book's run", book]].map(
      ([name, run]) => element("button", { type: "button", onclick: () => {
        Object.assign(chosen, { warmup: run.warmup, d_model: run.d_model });
        warmup.set(warmups.indexOf(run.warmup));
        width.set(widths.indexOf(run.d_model));
        show();
      } }, name))]);
  const scale = choice("axes", [["linear", "linear"], ["log", "logarithmic"]], "linear", value => {
    chosen.log = value === "log";
    show();
  });
  const picture = element("div", { class: "explorer-picture", style: "height: 300px" });
  const lines = element("div", {});
  const said = live();
  root.append(warmup.element, width.element, presets, scale.element, picture, lines, said.element);

  // A curve from step 1 to `last`, close where it bends: at its peak, and on a logarithmic axis at the start.
  function curve(dModel, warmupSteps, factor, last) {
    const steps = new Set([1, Math.min(warmupSteps, last), last]);
    for (let i = 1; i < 120; i += 1) {
      steps.add(Math.max(1, Math.round(last * i / 120)));
      steps.add(Math.round(Math.pow(last, i / 120)));
    }
    return [...steps].sort((a, b) => a - b).map(step => [step, learningRate(step, dModel, warmupSteps, factor)]);
  }

  function show() {
    const { d_model, log } = chosen, steps = base.steps;
    const peak = learningRate(chosen.warmup, d_model, chosen.warmup, 1);
    const last = learningRate(steps, d_model, chosen.warmup, 1);
    const theirs = learningRate(base.warmup, base.d_model, base.warmup, 1);
    const ours = learningRate(book.warmup, book.d_model, book.warmup, book.factor);
    const plot = chart({
      width: picture.clientWidth || 300, height: 300,
      x: { from: log ? 1 : 0, to: steps, log, label: "step", show: spaced },
      y: log ? { from: 1e-8, to: 1e-1, log, label: "learning rate", show: rate => power(rate).replace(/.*·\u202f/, "") }
        : { from: 0, to: 1.1 * Math.max(peak, theirs), label: "learning rate, in 10⁻⁴",
          show: rate => String(Math.round(rate * 1e6) / 100) },
    });
    plot.line(curve(base.d_model, base.warmup, 1, steps), THEIRS, "8 4");
    plot.line(curve(book.d_model, book.warmup, book.factor, book.steps), OURS, "2 3");
    plot.line(curve(d_model, chosen.warmup, 1, steps), YOURS);
    plot.dot(chosen.warmup, peak, YOURS);
    picture.replaceChildren(plot.element);
    const beyond = !log && ours > 1.1 * Math.max(peak, theirs);
    lines.replaceChildren(legend([
      ["yours", YOURS], ["the base model's", THEIRS, "8 4"],
      ["this book's run" + (beyond ? ": at the left edge, and out at the top" : ""), OURS, "2 3"]]));
    const times = peak / theirs;
    said.say([
      "Yours is highest at step ", number("step", chosen.warmup, spaced(chosen.warmup)), ": ",
      number("peak", peak, power(peak)), ", ",
      Math.abs(times - 1) < 1e-9 ? "the base model's peak" : `${spaced(times)} times the base model's`,
      `. At step ${spaced(steps)} it is `, number("last", last, power(last)),
      `. This book's run (d_model ${book.d_model}, factor ${book.factor}) ends at step ${book.steps}; its rate is ` +
      `highest at step ${book.warmup}: `, number("book", ours, power(ours)), ".",
    ]);
  }
  atWidth(picture, show);
}));
