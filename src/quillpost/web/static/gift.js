// Whoever has been to the sender's page and looks at this one again finds it gone on.

const visit = document.querySelector("[data-visit]");
let hasLeft = false;

function leave() {
  hasLeft = true;
}

function goOn() {
  if (hasLeft && document.visibilityState === "visible") location.reload();
}

visit.addEventListener("click", leave);
visit.addEventListener("auxclick", leave);
document.addEventListener("visibilitychange", goOn);
window.addEventListener("focus", goOn);
