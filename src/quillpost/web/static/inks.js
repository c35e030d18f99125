// A color that is picked is the one that is meant.
for (const picked of document.querySelectorAll(".own-ink")) {
  const [chosen, color] = picked.querySelectorAll("input");
  color.addEventListener("input", () => (chosen.checked = true));
}
