// Swap one memory vector yourself: the front page and "One sentence". Data: { number, place, donor }, what is swapped
// at first: the vector at `place` comes from the number `donor`. Both numbers are one English piece apart, as in
// annotated.analysis.swaps.swap_case.
annotatedExplorer.load("numbers.js").then(() => annotatedExplorer("swap", function (root, data, here) {
  "use strict";
  const { element, live, choice, signed, spaced, bookModel } = annotatedExplorer;
  const named = (piece) => (data.names || {})[piece] || piece;
  const digitOf = (number, power) => Math.floor(number / power) % 10;
  let model, tokenizer, number = data.number, place = data.place, donor = data.donor;

  const field = annotatedNumbers.field(number, typed, refused);
  const english = element("span", { class: "swap-english" });
  const strips = element("div", { class: "swap-strips", role: "group", "aria-label": "The memory: one vector per piece" });
  const donors = element("div", { class: "swap-donors" });
  const german = element("p", { class: "swap-german", lang: "de" });
  const said = live();
  root.classList.add("swap");
  root.append(
    element("div", { class: "swap-ask" }, [field, english]),
    element("p", { class: "swap-task" }, "Choose an underlined piece to swap its vector."), strips, donors,
    element("p", { class: "swap-arrow" }, "▼ from these vectors alone the model writes"),
    german, said.element,
  );

  // The numbers that differ from this one in one English piece, by the place of the piece; with the number itself.
  function donorsOf(number) {
    const ids = source(number), found = new Map();
    for (let power = 1; power <= number; power *= 10) {
      for (let digit = 1; digit < 10; digit++) {
        const other = number + (digit - digitOf(number, power)) * power, ids2 = source(other);
        const apart = ids.flatMap((id, i) => (id === ids2[i] ? [] : [i]));
        if (ids.length !== ids2.length || apart.length !== 1) continue;
        if (!found.has(apart[0])) found.set(apart[0], [number]);
        found.get(apart[0]).push(other);
      }
    }
    found.forEach((others) => others.sort((a, b) => a - b));
    return found;
  }
  const source = (number) => tokenizer.source(annotatedNumbers.spell(number, "en"));
  const says = (number, memory) => annotatedModel.greedySearch(model, source(number), memory).tokens;

  function refused(message) {
    root.classList.add("stale");
    english.textContent = "";
    said.say(message);
  }
  function typed(asked) {
    root.classList.remove("stale");
    number = asked;
    const found = donorsOf(number);
    choose(found, found.size ? [...found.keys()][0] : null); // the lowest digit, if any can be swapped
  }

  // Swap at this place, for the digit one higher: 2 by 3, 9 by 1.
  function choose(found, at) {
    place = at;
    donor = at === null ? null : found.get(at).find((other) => other > number) ?? found.get(at)[0];
    draw();
  }

  function draw() {
    const ids = source(number), found = donorsOf(number), memory = model.encode(ids);
    const pieces = ids.map((id) => tokenizer.piece(id));
    let shown = memory, from = null;
    if (place !== null) {
      from = source(donor);
      shown = annotatedModel.swapVectors(memory, model.encode(from), [place]);
    }
    english.textContent = annotatedNumbers.spell(number, "en");

    const most = 0.75 * Math.max(...shown.flat().map(Math.abs)), focused = document.activeElement;
    const kept = [...strips.children].indexOf(focused);
    strips.replaceChildren(...shown.map((vector, i) => strip(vector, i, pieces[i], i === place && tokenizer.piece(from[i]))));
    fit();
    if (kept >= 0 && strips.children[kept]) strips.children[kept].focus();

    function strip(vector, i, piece, other) {
      const step = 100 / vector.length;
      const bands = vector.map((x, c) => `${signed(x / most)} ${c * step}% ${(c + 1) * step}%`);
      return element("button", {
        type: "button", disabled: found.has(i) ? null : "", class: other ? "swapped" : null,
        "aria-pressed": found.has(i) ? String(i === place) : null,
        onclick: function () {
          if (i !== place) choose(found, i);
        },
      }, [
        element("b", {}, other ? [named(piece), " ", element("span", {}, "→ " + other)] : named(piece)),
        element("span", { class: "swap-cells", style: `background:linear-gradient(${bands.join(",")})` }),
      ]);
    }

    if (place === null) {
      donors.replaceChildren(element("span", {}, "No single digit of this number can be swapped alone. Try 342."));
    } else {
      const labels = found.get(place).map((other) => [other, tokenizer.piece(source(other)[place])]);
      const short = (word) => {
        const value = annotatedNumbers.read(word);
        return "number" in value ? String(value.number) : word;
      };
      const group = choice("", labels.map(([other, word]) => [other, short(word)]), donor, function (other) {
        donor = Number(other);
        draw();
      });
      const label = group.element.querySelector("span");
      label.append("Give ", element("b", {}, named(pieces[place])), " the vector of");
      const buttons = group.element.querySelectorAll("button"), had = donors.contains(focused) ? focused.dataset.value : null;
      labels.forEach(([other, word], i) => buttons[i].setAttribute("aria-label", `${short(word)}, from ${spaced(other)}`));
      donors.replaceChildren(group.element);
      if (had) donors.querySelector(`[data-value="${had}"]`)?.focus();
    }

    const before = says(number, memory), after = says(number, shown);
    const written = difference(before, after);
    german.replaceChildren(...written.nodes);
    said.say(verdict(written));
  }

  // What was written before and is now, as nodes: alike, struck out, new.
  function difference(before, after) {
    let start = 0, end = 0;
    while (start < before.length && start < after.length && before[start] === after[start]) start++;
    while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) end++;
    const text = (ids) => tokenizer.raw(ids).trim();
    const old = text(before.slice(start, before.length - end)), now = text(after.slice(start, after.length - end));
    const alike = (ids) => ids.map((id) => element("span", {}, text([id])));
    const nodes = [...alike(after.slice(0, start)), old && element("s", {}, old), now && element("em", {}, now),
      ...alike(after.slice(after.length - end))];
    return { old, now, whole: tokenizer.decode(after), nodes: nodes.filter(Boolean) };
  }

  // The English of a German piece that says one digit, its tens, hundreds or thousands, with or without "und".
  function meaning(word) {
    for (let power = 1; power < annotatedNumbers.LIMIT; power *= 10) {
      for (let digit = 1; digit < 10; digit++) {
        const value = digit * power, written = annotatedNumbers.spell(value, "de");
        const place = [written, "und" + written, value === 1 ? "ein" : written].indexOf(word);
        if (place >= 0) return (place === 1 ? "and " : "") + annotatedNumbers.spell(value, "en");
      }
    }
    return null;
  }

  function verdict({ old, now, whole }) {
    const target = place === null ? number : donor;
    const right = whole === annotatedNumbers.spell(target, "de");
    if (place === null || donor === number) {
      return right ? `Nothing is swapped: the German of ${spaced(number)}.` : "Nothing is swapped, and the German is wrong.";
    }
    const pair = (word) => [element("i", { lang: "de" }, word), ` = ${meaning(word)}`];
    const known = meaning(old) && meaning(now) ? [...pair(old), ", ", ...pair(now), ". "] : [];
    return [...known, right
      ? `One vector came from ${spaced(donor)}, and the German now says ${spaced(donor)}.`
      : `One vector came from ${spaced(donor)}; the German is not that of ${spaced(donor)}.`];
  }

  // Where a strip is narrower than its word, the word stands upright.
  const fit = function () {
    const width = strips.clientWidth; // 0 before it stands on the page
    if (width) strips.classList.toggle("narrow", width < 46 * strips.children.length);
  };
  new ResizeObserver(fit).observe(strips);

  return bookModel(here).then(function (ready) {
    ({ model, tokenizer } = ready);
    draw();
  });
}));
