// @vitest-environment happy-dom
import { expect, test } from "vitest";
import { parseParams } from "../../src/ui/turn/approval.tsx";
import { show, textOf } from "./shown.tsx";

const callOf = (shown: ReturnType<typeof show>) => shown.one(".ask").dataset.call;

test("a request shows the action, its parameters, the reason and the deadline", () => {
  const ask = textOf(show("approval-asked").one(".ask"));
  expect(ask).toContain("Allow mail.send?needs your approval");
  expect(ask).toContain("toada@example.com");
  expect(ask).toContain("Approval is required every time.Expires Wed 25 Nov, 09:24 (in 9 minutes).");
});

test("a request for a program shows the program, and offers no editing", () => {
  const shown = show("approval-program");
  expect(textOf(shown.one(".ask .code"))).toContain("import pandas as pd");
  expect(shown.text).toContain("A program's parameters can't be edited.");
  expect(shown.has("Edit…")).toBe(false);
  expect(shown.all(".program")).toEqual([]);
});

test("an approval takes one press, and is then pending", async () => {
  const shown = show("approval-asked");
  shown.press(shown.button("Approve"));
  expect(shown.called).toEqual([["approve", callOf(shown)]]);
  expect(shown.text).toContain("sending your answer…");
  await shown.settle();
  expect(shown.has("Approve")).toBe(false);
});

test("a refused answer shows why, and can be given again", async () => {
  const shown = show("approval-asked");
  shown.refusals.push("approval_not_pending");
  shown.press(shown.button("Approve"));
  await shown.settle();
  expect(textOf(shown.one(".ask [role=alert]"))).toContain("approval_not_pending");
  expect(shown.has("Approve")).toBe(true);
});

test("a denial works by keyboard: the field has the focus, Enter sends its text", () => {
  const shown = show("approval-asked");
  shown.press(shown.button("Deny"));
  const field = shown.one("textarea");
  expect(document.activeElement).toBe(field);
  shown.type(field, "Not before Monday.");
  shown.key(field, "Enter", { shiftKey: true });
  expect(shown.called).toEqual([]);
  shown.key(field, "Enter");
  expect(shown.called).toEqual([["deny", callOf(shown), "Not before Monday."]]);
});

test("a denial needs no text, and Escape cancels it without reaching the page", () => {
  const shown = show("approval-asked");
  let escaped = 0;
  document.addEventListener("keydown", () => {
    escaped += 1;
  });
  shown.press(shown.button("Deny"));
  shown.key(shown.one("textarea"), "Escape");
  expect(escaped).toBe(0);
  expect(shown.all("textarea")).toEqual([]);
  shown.press(shown.button("Deny"));
  shown.key(shown.one("textarea"), "Enter");
  expect(shown.called).toEqual([["deny", callOf(shown), ""]]);
});

test("editing begins with the parameters, rejects invalid JSON, and sends valid JSON", () => {
  const shown = show("approval-asked");
  shown.press(shown.button("Edit…"));
  const field = shown.one("textarea") as HTMLTextAreaElement;
  expect(JSON.parse(field.value)).toMatchObject({ to: "ada@example.com" });
  shown.type(field, '{"to": ');
  expect(field.getAttribute("aria-invalid")).toBe("true");
  expect(textOf(shown.one(`#${CSS.escape(field.getAttribute("aria-describedby") ?? "")}`))).toContain("Not valid JSON");
  shown.key(field, "Enter", { ctrlKey: true });
  expect(shown.called).toEqual([]);
  shown.type(field, '{"to": "grace@example.com"}');
  expect(field.getAttribute("aria-invalid")).toBe("false");
  shown.key(field, "Enter", { ctrlKey: true });
  expect(shown.called).toEqual([["edit", callOf(shown), { to: "grace@example.com" }]]);
});

test.each(["[]", "null", "1", '"x"'])("parameters are an object, not %s", (text) => {
  expect(parseParams(text)).toEqual({ why: "This must be an object: {…}" });
});

test("an expired request says so, and cannot be answered", () => {
  const shown = show("approval-late");
  expect(shown.text).toContain("This approval has expired.");
  expect(shown.button("Approve").disabled).toBe(true);
});

test("a request that a stop has settled says so once, without further text about its call", () => {
  const shown = show("approval-settled");
  expect(shown.all(".card.call").length).toBe(4);
  expect(shown.text.match(/you stopped the turn/g)).toHaveLength(1);
});

test("a settled request shows its verdict in words", () => {
  expect(show("approval-settled").all(".verdict").map(textOf)).toEqual([
    "approved",
    "approved with changes, by the application desk",
    "denied Reason given to the agent: Not before Monday.".replace("denied ", "denied"),
    "expired: not run",
    "mail.send cancelled: you redirected the turn",
    "mail.send cancelled: you stopped the turn",
  ]);
});
