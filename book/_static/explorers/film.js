// §5.2: a training, moved through by hand: what three models say at each look, and what they can do.
// data: target, the right word; films, for each seed its looks, each { step, loss, accuracy, says, exact_2 … exact_6 }.
annotatedExplorer.load("explorers/chart.js").then(() => annotatedExplorer("film", (root, data) => {
  "use strict";
  const { element, range, choice, live, spaced, percent, atWidth, chart, number } = annotatedExplorer;
  const { target, films } = data, steps = films[0].map(look => look.step), last = steps[steps.length - 1];
  const DIGITS = Object.keys(films[0][0]).filter(key => key.startsWith("exact_")).map(key => Number(key.slice(6)));
  const chosen = { at: 0, seed: 1 };
  let playing = null;

  const time = range({
    label: "updates", min: 0, max: steps.length - 1, value: 0, show: i => spaced(steps[i]),
  }, i => { stop(); chosen.at = i; show(); });
  const play = element("button", { type: "button", onclick: () => {
    if (playing) { stop(); return; }
    if (chosen.at === steps.length - 1) turn(0);
    play.textContent = "stop";
    playing = setInterval(() => { turn(chosen.at + 1); if (chosen.at === steps.length - 1) stop(); }, 700);
  } }, "play");
  const seed = choice("curves of seed", films.map((_, i) => i), chosen.seed, value => { chosen.seed = value; show(); });

  function turn(at) {
    chosen.at = at;
    time.set(at);
    show();
  }
  function stop() {
    clearInterval(playing);
    playing = null;
    play.textContent = "play";
  }

  // What is right from the start of the word stands plain, what follows is marked.
  function answer(says) {
    if (!says) return [element("span", { class: "film-nothing" }, "(nothing)")];
    let same = 0;
    while (same < says.length && says[same] === target[same]) same += 1;
    return says === target ? [says, element("b", { class: "film-right" }, " right")]
      : [says.slice(0, same), element("span", { class: "film-wrong" }, says.slice(same))];
  }

  const words = films.map(() => element("span", { class: "film-word" }));
  const bars = DIGITS.map(digits => ({ digits, bar: element("i", {}), share: element("span", { class: "query-share" }) }));
  const loss = element("div", { class: "explorer-picture", style: "height: 150px" });
  const right = element("div", { class: "explorer-picture", style: "height: 150px" });
  const said = live();
  root.append(
    element("div", { class: "film-time" }, [time.element, play]),
    element("ul", { class: "film-words" }, words.map((word, i) =>
      element("li", {}, [element("span", {}, `seed ${i}: `), word]))),
    seed.element, element("div", { class: "film-charts" }, [loss, right]),
    element("ul", { class: "film-digits" }, bars.map(({ digits, bar, share }) => element("li", {}, [
      element("span", {}, `${digits} digits`), element("span", { class: "query-bar", "aria-hidden": "true" }, bar),
      share]))),
    said.element);

  function curve(place, key, top, label, color, show) {
    const plot = chart({
      width: place.clientWidth || 300, height: 150,
      x: { from: 0, to: last, label: "updates", show: spaced }, y: { from: 0, to: top, label, show },
    });
    films.forEach((looks, i) => {
      if (i !== chosen.seed) plot.line(looks.map(look => [look.step, look[key]]), "var(--aa-line)");
    });
    const looks = films[chosen.seed];
    plot.line(looks.map(look => [look.step, look[key]]), color);
    plot.dot(steps[chosen.at], looks[chosen.at][key], color);
    place.replaceChildren(plot.element);
  }

  function show() {
    const { at, seed: which } = chosen, look = films[which][at];
    words.forEach((word, i) => word.replaceChildren(...answer(films[i][at].says)));
    curve(loss, "loss", 6, "smoothed loss, in nats", "var(--aa-violet)", value => String(value));
    curve(right, "accuracy", 1, "unseen numbers right", "var(--aa-orange)", value => percent(value, 0));
    bars.forEach(({ digits, bar, share }) => {
      bar.style.width = percent(look[`exact_${digits}`]).replace("\u202f", "");
      share.replaceChildren(number(`exact-${digits}`, look[`exact_${digits}`], percent(look[`exact_${digits}`], 0)));
    });
    const count = films.filter(looks => looks[at].says === target).length;
    said.say([
      `After ${steps[at]} updates ${["none", "one", "two", "all three"][count]} of the models ${count > 1 ? "say" : "says"} `,
      element("i", {}, target), `. Seed ${which} says `, element("i", {}, look.says || "nothing"), ": loss ",
      number("loss", look.loss, look.loss.toFixed(2)), ", ", number("accuracy", look.accuracy, percent(look.accuracy, 0)),
      " of the unseen numbers right.",
    ]);
  }
  atWidth(loss, show);
}));
