// Enhancements of forms: times in the reader's time zone, fields that depend on a choice, loading a file.

export function forms() {
  for (const field of document.querySelectorAll("input[data-utc]")) useLocalZone(field);
  for (const form of document.querySelectorAll("form:has([data-only-for])")) showFieldsOfChoice(form);
  for (const form of document.querySelectorAll("form:has([name=notification]):has([name=delay])")) disableDelayWhileOff(form);
  const text = document.getElementById("field-text");
  if (text) addFileInput(text);
}

// The termination delay has no effect while the notification is off.
function disableDelayWhileOff(form) {
  const update = () => (form.elements.delay.disabled = form.elements.notification.value !== "on");
  for (const choice of form.querySelectorAll("[name=notification]")) choice.addEventListener("change", update);
  update();
}

// The bar with actions on the selected rows: shows how many there are, and is hidden while there are none.
export function selectionBar() {
  const bar = document.querySelector(".selbar");
  if (!bar) return;
  const boxes = () => [...document.querySelectorAll("input[form=selection][type=checkbox]:not(#select-all)")];
  const all = document.getElementById("select-all");
  const update = () => {
    const selected = boxes().filter((box) => box.checked);
    const machines = selected.reduce((sum, box) => sum + Number(box.dataset.machines || 0), 0);
    bar.hidden = selected.length === 0;
    bar.querySelector("[data-selected]").textContent = `${selected.length} selected` + (machines ? ` · ${machines} machines` : "");
    for (const box of boxes()) box.closest("tr").classList.toggle("sel", box.checked);
    if (all) {
      all.checked = selected.length > 0 && selected.length === boxes().length;
      all.indeterminate = selected.length > 0 && !all.checked;
    }
  };
  all?.addEventListener("change", () => {
    for (const box of boxes()) box.checked = all.checked;
    update();
  });
  document.getElementById("main").addEventListener("change", update);
  // Live updates replace and remove rows.
  const list = document.querySelector("tbody:has(input[form=selection])");
  if (list) new MutationObserver(update).observe(list, { childList: true });
  update();
}

// Sends UTC to the server and shows both.
function useLocalZone(field) {
  const utc = document.createElement("input");
  utc.type = "hidden";
  utc.name = field.name;
  utc.value = field.value;
  field.removeAttribute("name");
  const hint = document.createElement("p");
  hint.className = "quiet hint";
  hint.setAttribute("role", "status");
  field.after(utc, hint);
  const zone = field.closest(".field").querySelector("[data-zone]");
  zone.textContent = `(${Intl.DateTimeFormat().resolvedOptions().timeZone})`;
  const minutes = (date) => date.toISOString().slice(0, 16);
  const showUtc = () => (hint.textContent = utc.value ? `${utc.value.replace("T", " ")} UTC` : "");
  const given = new Date(utc.value.replace(/Z?$/, "Z"));
  if (!isNaN(given)) field.value = minutes(new Date(given - given.getTimezoneOffset() * 60000));
  field.addEventListener("input", () => {
    const date = new Date(field.value);
    utc.value = isNaN(date) ? "" : minutes(date);
    showUtc();
  });
  showUtc();
}

function showFieldsOfChoice(form) {
  const choice = form.querySelector("select");
  const show = () => {
    for (const field of form.querySelectorAll("[data-only-for]")) field.hidden = !field.dataset.onlyFor.split(" ").includes(choice.value);
  };
  choice.addEventListener("change", show);
  show();
}

// Loads a file into the text field. It can be edited before the form is sent.
function addFileInput(text) {
  const label = document.createElement("label");
  label.className = "file";
  label.textContent = "Load from file ";
  const file = document.createElement("input");
  file.type = "file";
  file.accept = ".toml,text/plain";
  file.addEventListener("change", async () => (text.value = (await file.files[0]?.text()) ?? text.value));
  label.append(file);
  text.before(label);
}
