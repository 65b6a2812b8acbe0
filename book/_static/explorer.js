// Explorers: parts of a page that the reader moves. `annotated.notebook.explorer` writes into the page
//   <div class="explorer" data-explorer="NAME">fallback <script type="application/json">data</script></div>
// This script loads explorers/NAME.js for each, which calls annotatedExplorer("NAME", function (root, data, place) {…})
// and builds what the reader sees into `root`, an empty <div>; it may return a promise, as of `bookModel(place)`. Until
// that is kept, without script, and in print the fallback shows: what stands in the <div>, `place`, or else the figure of
// the cell before.
// A classic script without fetch or modules, so that it also works on pages opened from disk.
(function () {
  "use strict";
  var here = document.currentScript.src, loaded = {};

  // Load a script of _static once, by its address relative to this one: a promise.
  function load(file) {
    loaded[file] = loaded[file] || new Promise(function (resolve, reject) {
      var script = document.createElement("script");
      script.src = new URL(file, here).href;
      script.onload = resolve;
      script.onerror = function () { reject(new Error("not loaded: " + file)); };
      document.head.append(script);
    });
    return loaded[file];
  }

  // Measured numbers are written "≈0.5" (annotated.notebook.as_json); an explorer gets numbers.
  function measured(key, value) {
    return typeof value === "string" && /^≈-?\d/.test(value) ? Number(value.slice(1)) : value;
  }

  function annotatedExplorer(name, build) {
    document.querySelectorAll('.explorer[data-explorer="' + name + '"]').forEach(function (place) {
      var data = JSON.parse(place.querySelector('script[type="application/json"]').textContent, measured);
      var root = element("div", { class: "explorer-live" });
      var fallback = element("div", { class: "explorer-fallback" });
      fallback.append.apply(fallback, place.childNodes);
      place.append(fallback);
      var cell = place.closest(".cell"), figure = cell && cell.previousElementSibling;
      Promise.resolve(build(root, data, place)).then(function () {
        var inside = fallback.contains(document.activeElement); // the keyboard goes on where it was
        place.append(root);
        place.classList.add("alive");
        if (figure && !fallback.querySelector(":scope > :not(script)")) figure.classList.add("replaced-by-explorer");
        if (inside) root.querySelector("input, button, select").focus({ preventScroll: true });
      }, function (error) { console.warn(error.message); });
    });
  }

  // Kept when the reader comes near this place or touches it, with a pointer or by keyboard.
  function near(place) {
    return new Promise(function (resolve) {
      var touches = ["pointerover", "pointerdown", "focusin"], watcher = new IntersectionObserver(function (seen) {
        if (seen.some(function (one) { return one.isIntersecting; })) come();
      }, { rootMargin: "600px 0px" });
      function come() {
        watcher.disconnect();
        touches.forEach(function (type) { place.removeEventListener(type, come); });
        resolve();
      }
      touches.forEach(function (type) { place.addEventListener(type, come); });
      watcher.observe(place);
      if (place.contains(document.activeElement)) come();
    });
  }

  // The book's model, { model, tokenizer }, for the explorer at `place`. Its weights, 200 kB, are asked for when the
  // reader comes near. Until they are there the fallback shows, and a wait that can be noticed is told in words.
  function bookModel(place) {
    return near(place).then(function () {
      var told = element("p", { class: "explorer-loading", role: "status" });
      place.append(told);
      var waited = setTimeout(function () { told.textContent = "The model is being loaded …"; }, 400);
      return load("model.js").then(function () { return annotatedModel.load(); }).then(function (ready) {
        clearTimeout(waited);
        told.remove();
        return ready;
      }, function (error) {
        clearTimeout(waited);
        told.textContent = "The model could not be loaded; this stands for it.";
        throw error;
      });
    });
  }

  // An element with attributes and children; what is null is left out, `onclick` and the like are listened to.
  function element(tag, attributes, children) {
    var made = document.createElement(tag);
    Object.keys(attributes || {}).forEach(function (name) {
      var value = attributes[name];
      if (typeof value === "function") made.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined) made.setAttribute(name, value);
    });
    made.append.apply(made, [].concat(children === undefined ? [] : children));
    return made;
  }

  // 18944000 → "18 944 000", 0.04567 → "0.0457" (three digits unless told), minus as a minus: thin spaces, as on pages.
  function spaced(value, digits) {
    var text = Number.isInteger(value) ? String(value) : decimal(value, digits === undefined ? 3 : digits);
    var parts = text.replace("-", "−").split(".");
    if (parts[0].replace("−", "").length > 4) parts[0] = parts[0].replace(/\B(?=(\d{3})+$)/g, "\u202f");
    return parts.join(".");
  }
  function decimal(value, digits) {
    if (value === 0) return "0";
    var places = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value))));
    return places > 20 ? value.toExponential(digits - 1) : value.toFixed(Math.min(places, 20));
  }
  function percent(share, places) {
    return (100 * share).toFixed(places === undefined ? 1 : places) + "\u202f%";
  }

  // Colours follow the page, light or dark: −1 violet, 0 the ground, 1 orange; a weight from 0, the ground, to 1, violet.
  function signed(value) {
    var x = Math.max(-1, Math.min(1, value));
    return mixed(x < 0 ? "--aa-violet" : "--aa-orange-area", Math.pow(Math.abs(x), 0.8));
  }
  function weight(value) {
    return mixed("--aa-violet", Math.max(0, Math.min(1, value)));
  }
  function mixed(name, share) {
    return "color-mix(in srgb, var(" + name + ") " + (100 * share).toFixed(1) + "%, var(--aa-zero))";
  }

  var ids = 0;

  // A labelled slider with its value beside it. `options`: label, min, max, step, value, show(value) → text.
  // `changed(value)` is called at every move. Returns { element, input, set(value) }.
  function range(options, changed) {
    var show = options.show || function (value) { return spaced(value); };
    var id = "explorer-" + (ids += 1);
    var input = element("input", {
      type: "range", id: id, min: options.min, max: options.max,
      step: options.step === undefined ? 1 : options.step, value: options.value,
    });
    var said = element("output", { for: id });
    function update() {
      said.textContent = show(Number(input.value));
      input.setAttribute("aria-valuetext", said.textContent);
    }
    input.addEventListener("input", function () { update(); changed(Number(input.value)); });
    update();
    return {
      element: element("div", { class: "explorer-range" }, [element("label", { for: id }, options.label), input, said]),
      input: input,
      set: function (value) { input.value = value; update(); },
    };
  }

  // A button that is pressed or not. `changed(pressed)` is called; returns { element, set(pressed) }.
  function toggle(label, pressed, changed) {
    var button = element("button", { type: "button", "aria-pressed": String(Boolean(pressed)), onclick: function () {
      var now = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(now));
      changed(now);
    } }, label);
    return { element: button, set: function (now) { button.setAttribute("aria-pressed", String(Boolean(now))); } };
  }

  // One of several: a group of buttons, of which one is pressed. `choices` are [value, label] pairs or values.
  // `changed(value)` is called; returns { element, set(value) }.
  function choice(label, choices, value, changed) {
    var buttons = choices.map(function (one) {
      var pair = Array.isArray(one) ? one : [one, String(one)];
      return element("button", { type: "button", "data-value": pair[0], onclick: function () {
        set(pair[0]);
        changed(pair[0]);
      } }, pair[1]);
    });
    function set(now) {
      buttons.forEach(function (button) {
        button.setAttribute("aria-pressed", String(button.dataset.value === String(now)));
      });
    }
    set(value);
    var id = "explorer-" + (ids += 1);
    return {
      element: element("div", { class: "explorer-choice", role: "group", "aria-labelledby": id },
        [element("span", { id: id }, label)].concat(buttons)),
      set: set,
    };
  }

  // The sentence with the result, read aloud when it changes. Returns { element, say(text or nodes) }.
  function live() {
    var line = element("p", { class: "explorer-said", "aria-live": "polite" });
    return {
      element: line,
      say: function (words) {
        line.replaceChildren.apply(line, [].concat(words));
        line.style.minHeight = line.offsetHeight + "px"; // a shorter sentence doesn't pull up what follows
      },
    };
  }

  annotatedExplorer.load = load;
  annotatedExplorer.bookModel = bookModel;
  annotatedExplorer.element = element;
  annotatedExplorer.range = range;
  annotatedExplorer.toggle = toggle;
  annotatedExplorer.choice = choice;
  annotatedExplorer.live = live;
  annotatedExplorer.signed = signed;
  annotatedExplorer.weight = weight;
  annotatedExplorer.spaced = spaced;
  annotatedExplorer.percent = percent;
  window.annotatedExplorer = annotatedExplorer;

  document.addEventListener("DOMContentLoaded", function () {
    document.querySelectorAll(".explorer[data-explorer]").forEach(function (place) {
      load("explorers/" + place.dataset.explorer + ".js").catch(function (error) { console.warn(error.message); });
    });
  });
})();
