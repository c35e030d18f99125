// A color may be picked as well as typed; with htmx the picture beside the form comes by itself.

const typed = document.querySelector("#accentColor");
const picker = document.querySelector("#picker");
if (typed && picker) {
  const follow = () => {
    if (/^#[0-9a-f]{6}$/i.test(typed.value.trim())) picker.value = typed.value.trim();
  };
  picker.hidden = false;
  follow();
  typed.addEventListener("input", follow);
  picker.addEventListener("input", () => {
    typed.value = picker.value;
  });
}
if (window.htmx) for (const each of document.querySelectorAll(".unscripted")) each.hidden = true;
