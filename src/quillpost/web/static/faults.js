// A form that comes back with faults: whoever is to mend them is put at the first that can be seen.

const FIELD = "input:not([type=hidden]), select, textarea";

const fieldOf = (fault) => {
  const box = fault.closest(".told") ?? fault;
  const told = document.querySelector(`[aria-describedby~="${CSS.escape(box.id)}"]`) ?? box.closest(".field, fieldset, section");
  return told?.matches(FIELD) ? told : told?.querySelector("input:checked") ?? told?.querySelector(FIELD);
};

for (const fault of document.querySelectorAll("main form .fault")) {
  const field = fieldOf(fault);
  if (!fault.checkVisibility() || !field?.checkVisibility()) continue;
  field.focus();
  break;
}
