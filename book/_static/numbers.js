// Numbers in words, and the field in which a reader types one: annotatedNumbers.spell(342, "de"), .read("two"), .field(…).
// tests/site/test_live.py holds the words to Python's. A classic script, so that it works from disk too.
(function () {
  "use strict";

  // Numbers in words (annotated.data.numbers.spell), "en" or "de".
  const WORDS = {
    en: "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen " +
      "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety",
    de: "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn " +
      "siebzehn achtzehn neunzehn zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
  };
  const LIMIT = 1000000;
  for (const language in WORDS) WORDS[language] = WORDS[language].split(" ");

  function spell(number, language) {
    const word = WORDS[language], thousands = Math.floor(number / 1000), rest = number % 1000;
    if (language === "en") {
      const joint = rest && rest < 100 ? " and " : rest ? ", " : "";
      return thousands ? below1000(thousands) + " thousand" + joint + (rest ? below1000(rest) : "") : below1000(rest);
    }
    const end = rest || !thousands ? german(rest) + (rest % 100 === 1 ? "s" : "") : "";
    return (thousands ? german(thousands) + "tausend" : "") + end;

    function below1000(n) {
      const hundreds = Math.floor(n / 100), low = n % 100;
      const tens = low < 20 ? word[low] : word[18 + Math.floor(low / 10)] + (low % 10 ? "-" + word[low % 10] : "");
      return hundreds ? word[hundreds] + " hundred" + (low ? " and " + tens : "") : tens;
    }
    function german(n) {
      const hundreds = Math.floor(n / 100), low = n % 100, tens = word[18 + Math.floor(low / 10)];
      const end = low < 20 ? word[low] : (low % 10 ? word[low % 10] + "und" : "") + tens;
      return hundreds ? word[hundreds] + "hundert" + (low ? end : "") : end;
    }
  }

  // What a reader typed: { number }, from 0 to 999 999 in digits or English words, or { message } that says why not.
  function read(typed) {
    const text = typed.trim().toLowerCase(), known = "The model has learned the whole numbers from 0 to 999\u202f999";
    if (!text) return { message: known + ": type one, in digits or in English words." };
    const grouped = /^\d{1,3}([ ,_'\u00a0\u2009\u202f]\d{3})+$/.test(text) ? text.replace(/\D/g, "") : text;
    if (/^[+\-−]?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?$/.test(grouped)) {
      const value = Number(grouped.replace(",", ".").replace("−", "-"));
      if (value < 0) return { message: `${typed.trim()} is below zero. ${known}.` };
      if (value >= LIMIT) return { message: `${typed.trim()} is too large. ${known}.` };
      if (!Number.isInteger(value)) return { message: `${typed.trim()} is not a whole number. ${known}.` };
      return { number: Math.abs(value) };
    }
    const plain = (said) => said.replace(/[\s,-]+|\band\b/g, " ").replace(/ +/g, " ").trim();
    let thousands = 0, rest = 0;
    for (const word of plain(text).split(" ")) {
      const place = WORDS.en.indexOf(word);
      if (word === "thousand") [thousands, rest] = [rest, 0];
      else if (word === "hundred") rest *= 100;
      else if (place >= 0) rest += place < 20 ? place : 10 * (place - 18);
      else return { message: `“${word}” is no part of an English number that the model knows. ${known}.` };
    }
    const number = 1000 * thousands + rest;
    if (number < LIMIT && plain(spell(number, "en")) === plain(text)) return { number };
    return { message: `“${typed.trim()}” is not how an English number is said. ${known}.` };
  }

  // The field of an explorer, with its name. What is typed goes to `asked(number)`, or is refused: `refused(message)`.
  function field(value, asked, refused) {
    const { element } = annotatedExplorer;
    const input = element("input", {
      type: "text", inputmode: "numeric", autocomplete: "off", spellcheck: "false", maxlength: 90, value,
      oninput() {
        const { number, message } = read(input.value);
        input.setAttribute("aria-invalid", String(message !== undefined));
        if (message === undefined) asked(number);
        else refused(message);
      },
    });
    return element("label", {}, ["English number ", input]);
  }

  window.annotatedNumbers = { LIMIT, spell, read, field };
})();
