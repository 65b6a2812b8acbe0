// §5.2: a training, moved through by hand: what its model says of each number at each look, and what it can do.
// data: numbers, each { number, english, german, unseen }; films, for each seed its looks, each { step, loss, accuracy,
// exact_2 … exact_6, answers: by number what was said of it }; chosen, the number and the seed that are shown at first.
annotatedExplorer.load("explorers/chart.js").then(() => annotatedExplorer("film", (root, data) => {
  "use strict";
  const { element, range, choice, live, spaced, percent, atWidth, chart, number } = annotatedExplorer;
  const { numbers, films } = data, steps = films[0].map(look => look.step), last = steps[steps.length - 1];
  const DIGITS = Object.keys(films[0][0]).filter(key => key.startsWith("exact_")).map(key => Number(key.slice(6)));
  const LONGEST = 60; // letters of an answer that are shown; every right one has fewer
  const chosen = { at: 0, seed: data.chosen.seed, number: data.chosen.number };
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
  const seed = choice("seed", films.map((_, i) => i), chosen.seed, value => { chosen.seed = Number(value); show(); });

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

  // Every number is a radio button with what became of it: one stop of the keyboard, on which arrows choose.
  const marks = numbers.map(() => element("small", {}));
  function shelf(name, wanted) {
    return element("fieldset", { class: "film-numbers" }, [element("legend", {}, name), ...numbers.flatMap((one, i) =>
      (one.unseen !== wanted ? [] : [element("label", {}, [element("input", {
        type: "radio", name: "film-number", value: one.number, checked: one.number === chosen.number ? "" : null,
        onchange: () => { chosen.number = one.number; show(); },
      }), element("span", {}, spaced(one.number)), marks[i]])]))]);
  }

  // What is right from the start of the word stands plain, what follows is marked; and the verdict in words.
  const verdict = (says, right) => (says === right ? "right" : says ? "wrong" : "silent");
  function answer(says, right) {
    if (!says) return [element("span", { class: "film-nothing" }, "(nothing)")];
    let same = 0;
    while (same < says.length && says[same] === right[same]) same += 1;
    const rest = says.length > LONGEST ? says.slice(same, LONGEST) + " …" : says.slice(same);
    return [says.slice(0, same), element("span", { class: "film-wrong" }, rest),
      element("b", { class: `film-verdict ${verdict(says, right)}` }, " " + verdict(says, right))];
  }

  const english = element("i", {}), german = element("i", { lang: "de" });
  const words = films.map(() => element("span", { class: "film-word", lang: "de" }));
  const bars = DIGITS.map(digits => ({ digits, bar: element("i", {}), share: element("span", { class: "query-share" }) }));
  const loss = element("div", { class: "explorer-picture", style: "height: 150px" });
  const right = element("div", { class: "explorer-picture", style: "height: 150px" });
  const said = live();
  const question = element("p", { class: "film-asked" }, [english, ", in German ", german]);
  const lines = words.map((word, i) => element("li", {}, [element("span", {}, `seed ${i}: `), word]));
  root.append(
    element("div", { class: "film-time" }, [time.element, play]), question,
    element("ul", { class: "film-words" }, lines),
    seed.element,
    shelf("held out of training", true), shelf("not held out", false),
    element("div", { class: "film-charts" }, [loss, right]),
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

  // Room for the longest question and answers, so that nothing below them moves.
  function reserve() {
    const longest = texts => texts.reduce((most, text) => (text.length > most.length ? text : most));
    const fits = (line, fill) => {
      line.style.minHeight = "";
      fill();
      line.style.minHeight = `${line.offsetHeight}px`;
    };
    fits(question, () => {
      english.textContent = longest(numbers.map(one => one.english));
      german.textContent = longest(numbers.map(one => one.german));
    });
    const most = longest(films.flat().flatMap(look => Object.values(look.answers)));
    lines.forEach((line, i) => fits(line, () => words[i].replaceChildren(...answer(most, ""))));
  }

  function show() {
    const { at, seed: which } = chosen, look = films[which][at];
    const asked = numbers.find(one => one.number === chosen.number);
    const saying = films.map(looks => looks[at].answers[chosen.number]);
    english.textContent = asked.english;
    german.textContent = asked.german;
    words.forEach((word, i) => word.replaceChildren(...answer(saying[i], asked.german)));
    numbers.forEach((one, i) => {
      marks[i].textContent = verdict(look.answers[one.number], one.german);
      marks[i].className = marks[i].textContent;
    });
    curve(loss, "loss", 6, "smoothed loss, in nats", "var(--aa-violet)", value => String(value));
    curve(right, "accuracy", 1, "unseen numbers right", "var(--aa-orange)", value => percent(value, 0));
    bars.forEach(({ digits, bar, share }) => {
      bar.style.width = percent(look[`exact_${digits}`]).replace("\u202f", "");
      share.replaceChildren(number(`exact-${digits}`, look[`exact_${digits}`], percent(look[`exact_${digits}`], 0)));
    });
    const count = saying.filter(says => says === asked.german).length;
    const known = numbers.filter(one => look.answers[one.number] === one.german).length;
    said.say([
      `After ${steps[at]} updates ${["none", "one", "two", "all three"][count]} of the models ${count > 1 ? "say" : "says"} `,
      element("i", { lang: "de" }, asked.german), `. Seed ${which}: `, number("known", known, String(known)),
      ` of the ${numbers.length} numbers above are right, and `, number("accuracy", look.accuracy, percent(look.accuracy, 0)),
      " of a hundred unseen ones; loss ", number("loss", look.loss, look.loss.toFixed(2)), ".",
    ]);
  }
  atWidth(loss, () => {
    reserve();
    show();
  });
}));
