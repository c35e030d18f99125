// A hand that is still being made ready has no sample yet: it has one a little later, and until then it says so.
for (const sample of document.querySelectorAll(".hand img")) {
  const hand = sample.closest(".hand");
  let tries = 0;
  const again = () => {
    hand.classList.add("waits");
    tries += 1;
    setTimeout(() => { sample.src = sample.getAttribute("src"); }, Math.min(2000 * tries, 15_000));
  };
  sample.addEventListener("error", again);
  sample.addEventListener("load", () => hand.classList.remove("waits"));
  if (sample.complete && !sample.naturalWidth) again();
}
