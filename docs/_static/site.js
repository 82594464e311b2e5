"use strict";

// What can be pushed sideways can be reached with the keyboard: the theme does it for code alone.
function reach() {
  document.querySelectorAll(".bd-content figure, dt.sig").forEach(function (element) {
    if (element.scrollWidth > element.clientWidth) {
      element.setAttribute("tabindex", "0");
    } else {
      element.removeAttribute("tabindex");
    }
  });
}

// The stepper has light and dark colours for what the system asks for; here the page's button asks.
function colour() {
  var dark = document.documentElement.dataset.theme === "dark";
  document.querySelectorAll("iframe.stepper").forEach(function (frame) {
    var inside = frame.contentDocument;
    if (!inside || !inside.body) {
      return;
    }
    inside.documentElement.style.colorScheme = dark ? "dark" : "light";
    Array.from(inside.styleSheets).forEach(function (sheet) {
      Array.from(sheet.cssRules).forEach(function (rule) {
        if (rule.media && (rule.dark || rule.conditionText.includes("prefers-color-scheme"))) {
          rule.dark = true;
          rule.media.mediaText = dark ? "all" : "not all";
        }
      });
    });
  });
}

// The arrows that unfold the list of pages get the words of the page that they stand beside, and
// the lines of a long signature are no list of definitions.
function name() {
  document.querySelectorAll(".bd-sidebar-primary summary").forEach(function (summary) {
    var page = summary.closest("li").querySelector("a");
    summary.setAttribute("aria-label", "Pages under " + page.textContent.trim());
  });
  document.querySelectorAll("dt.sig dl, dt.sig dd").forEach(function (element) {
    element.setAttribute("role", "presentation");
  });
}

document.addEventListener("DOMContentLoaded", name);
document.addEventListener("DOMContentLoaded", reach);
window.addEventListener("resize", reach);
window.addEventListener("load", function () {
  reach();
  colour();
  new MutationObserver(colour).observe(document.documentElement, { attributeFilter: ["data-theme"] });
});
