// Quizzes: a choice answers when it is opened, with a mark and with words; the first choice of each question counts.
// A quiz is a section whose name begins with "quiz": questions in bold, each followed by one <details> per choice,
// whose answer begins with "Yes" if it is right. So it can be read without this script. The score stays in this browser.
(function () {
  "use strict";

  // The choices in groups, one for each question.
  function questions(quiz) {
    var groups = [], open = false;
    Array.prototype.forEach.call(quiz.children, function (child) {
      if (!child.matches("details")) open = false;
      else if (open) groups[groups.length - 1].push(child);
      else {
        groups.push([child]);
        open = true;
      }
    });
    return groups;
  }

  function isRight(choice) {
    var answer = choice.textContent.slice(choice.querySelector("summary").textContent.length);
    return /^\s*Yes\b/.test(answer);
  }

  function mark(choice) {
    var verdict = document.createElement("span");
    verdict.className = "quiz-verdict";
    verdict.textContent = isRight(choice) ? "right" : "not this one";
    choice.classList.add(isRight(choice) ? "right" : "wrong");
    choice.querySelector("summary").append(" ", verdict);
  }

  function start(quiz) {
    var groups = questions(quiz), line = document.createElement("div"), told = document.createElement("span");
    var again = document.createElement("button");
    line.className = "quiz-score";
    told.setAttribute("role", "status");
    again.type = "button";
    again.className = "aa-button";
    again.textContent = "Begin again";
    line.append(told, again);
    quiz.append(line);

    // {question: choice}, each the first that was opened
    var chosen = annotatedKept.read("quiz");
    function tell() {
      var answered = Object.keys(chosen).filter(function (i) { return groups[i] && groups[i][chosen[i]]; });
      var right = answered.filter(function (i) { return isRight(groups[i][chosen[i]]); });
      told.textContent = answered.length
        ? right.length + " of " + answered.length + " right at the first choice, of " + groups.length + " questions"
        : groups.length + " questions; your first choice counts";
      again.hidden = !answered.length;
    }
    groups.forEach(function (group, i) {
      group.forEach(function (choice, j) {
        mark(choice);
        choice.open = chosen[i] === j;
        choice.addEventListener("toggle", function () {
          // Paper unfolds everything, which is no choice.
          if (!choice.open || i in chosen || window.matchMedia("print").matches) return;
          chosen[i] = j;
          annotatedKept.write("quiz", chosen);
          tell();
        });
      });
    });
    again.addEventListener("click", function () {
      chosen = {};
      annotatedKept.write("quiz", chosen);
      quiz.querySelectorAll("details").forEach(function (choice) { choice.open = false; });
      tell();
    });
    tell();
  }

  document.addEventListener("DOMContentLoaded", function () {
    document.querySelectorAll('.bd-article section[id^="quiz"]').forEach(function (quiz) {
      if (quiz.querySelector(":scope > details")) start(quiz);
    });
  });
})();
