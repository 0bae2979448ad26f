// Reports clicks to the service that this file comes from: bandit.click(token, goal), and by themselves elements with
// data-bandit-token (and data-bandit-goal), those added later too. A token counts once, however often it is reported.
(function () {
  "use strict";
  var script = document.currentScript;
  var address = script && script.src ? new URL("clicks", script.src).href : "/v1/clicks";

  function click(token, goal) {
    try {
      if (!token) return;
      // Text: a browser sends it to another origin without asking first, and while the page is being left.
      var body = goal ? JSON.stringify({ token: String(token), goal: String(goal) }) : String(token);
      if (navigator.sendBeacon && navigator.sendBeacon(address, body)) return;
      fetch(address, { method: "POST", body: body, keepalive: true, mode: "no-cors" }).catch(function () {});
    } catch (error) {
      // A page never fails because of its clicks.
    }
  }

  function report(event) {
    try {
      var found = event.target.closest("[data-bandit-token]");
      if (found && event.button < 2) click(found.dataset.banditToken, found.dataset.banditGoal);
    } catch (error) {
      // What was clicked is no element.
    }
  }

  document.addEventListener("click", report, true);
  document.addEventListener("auxclick", report, true); // The middle button opens a link in a new tab.
  window.bandit = Object.assign(window.bandit || {}, { click: click });
})();
