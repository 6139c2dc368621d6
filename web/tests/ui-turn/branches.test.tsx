// @vitest-environment happy-dom
import { act } from "preact/test-utils";
import { beforeEach, expect, test } from "vitest";
import type { Edits } from "../../src/ui/branches/past.ts";
import { Store } from "../../src/ui/store/store.ts";
import { branchWords as words } from "../../src/words/en/branches.ts";
import { states } from "../gallery/fixtures.ts";
import { type Shown, show as showState, textOf } from "./shown.tsx";

const heading = (shown: Shown, at: number) => shown.all("h2.said")[at];
const edits = (shown: Shown): Edits => shown.context.edits.value;
const buttons = (shown: Shown, name: string) =>
  shown.all("button").filter((button) => button.getAttribute("aria-label") === name) as HTMLButtonElement[];

beforeEach(async () => {
  await import("../../src/ui/app/later.ts");
});

/** Show a state; its edits are not those of another test. */
function show(name: string): Shown {
  const { context } = states[name] ?? {};
  return showState(name, { context: { ...context, edits: new Store<Edits>(new Map(context?.edits?.value)) } });
}

function opened(name: string): Shown {
  const shown = show(name);
  act(() => shown.context.edits.set(new Map()));
  return shown;
}

test("each message of the user can be edited, a service's cannot", () => {
  expect(buttons(show("branches"), words.edit)).toHaveLength(2);
  expect(buttons(show("loose-kept"), words.edit)).toHaveLength(1);
});

test("a message is edited in its place, and Enter sends the new text", async () => {
  const shown = opened("editing");
  const [first] = shown.thread.turns[0]?.prompts ?? [];
  shown.press(buttons(shown, words.edit)[0] as HTMLElement);
  const field = shown.one(".edit-field textarea") as HTMLTextAreaElement;
  expect([field.value, document.activeElement]).toEqual([first?.text, field]);
  expect(textOf(heading(shown, 0) as Element)).toBe("And where do they nest?");
  shown.type(field, "How old do herons get?");
  shown.key(field, "Enter");
  expect(shown.called).toEqual([["editMessage", first, "How old do herons get?"]]);
  await shown.settle();
});

test("Escape and Cancel close the field, and its text is there again when it is opened", () => {
  for (const leave of ["Escape", words.cancel]) {
    const shown = opened("editing");
    shown.press(buttons(shown, words.edit)[1] as HTMLElement);
    shown.type(shown.one(".edit-field textarea"), "And in winter?");
    if (leave === "Escape") shown.key(shown.one(".edit-field textarea"), "Escape");
    else shown.press(shown.button(leave));
    expect(shown.all(".edit-field")).toEqual([]);
    expect([...edits(shown).values()]).toEqual([{ text: "And in winter?", open: false, changed: true }]);
    shown.press(buttons(shown, words.edit)[1] as HTMLElement);
    expect((shown.one(".edit-field textarea") as HTMLTextAreaElement).value).toBe("And in winter?");
  }
});

test("a key of the edit field is not a key of the page", () => {
  const shown = show("editing");
  const heard: string[] = [];
  const hear = (event: KeyboardEvent) => heard.push(event.key);
  document.addEventListener("keydown", hear);
  shown.key(shown.one(".edit-field textarea"), "Escape");
  document.removeEventListener("keydown", hear);
  expect(heard).toEqual([]);
});

test("a refused edit keeps its text and says why", async () => {
  const shown = show("editing");
  shown.refusals.push("fork_too_deep");
  shown.press(shown.button(words.send));
  await shown.settle();
  expect(shown.one(".edit-field [role=alert]").textContent).not.toBe("");
  expect((shown.one(".edit-field textarea") as HTMLTextAreaElement).value).toBe("And where do they winter?");
});

test("a text that is too long or empty cannot be sent", () => {
  const long = show("editing-long");
  expect(long.button(words.send).disabled).toBe(true);
  expect(long.one(".edit-field [role=alert]").textContent).toBe(words.tooLong);
  const empty = show("editing");
  empty.type(empty.one(".edit-field textarea"), "  ");
  empty.key(empty.one(".edit-field textarea"), "Enter");
  expect([empty.button(words.send).disabled, empty.called]).toEqual([true, []]);
});

test("an edited message keeps its attachments, and says so", () => {
  const shown = show("editing-files");
  expect(shown.one(".edit-field .hint").textContent).toBe("Sent with its attachment.");
});

test("the switch is at the message where branches part, and goes to the one before and the one after", () => {
  const shown = show("branches");
  const nav = shown.one("nav.branches");
  expect(shown.all("nav.branches")).toHaveLength(1);
  expect(nav.closest(".prompt")?.querySelector("h2")?.textContent).toBe("And where do they nest?");
  expect(nav.querySelector(".num")?.textContent).toBe("2 / 3");
  expect(nav.querySelector(".num")?.getAttribute("aria-label")).toBe("Branch 2 of 3");
  const [point] = shown.context.past.value.points;
  shown.press(buttons(shown, words.previous)[0] as HTMLElement);
  shown.press(buttons(shown, words.next)[0] as HTMLElement);
  expect(shown.called).toEqual([
    ["switchBranch", point, -1],
    ["switchBranch", point, 1],
  ]);
});

test("the switch ends at the last branch, and names another one that runs", () => {
  const last = show("branches-last");
  expect([words.previous, words.next].map((name) => buttons(last, name)[0]?.disabled)).toEqual([false, true]);
  expect(last.all("nav.branches .lamp")).toEqual([]);
  expect(show("branches").one("nav.branches .lamp").getAttribute("aria-label")).toBe(words.othersRun);
});

test("a branch without a message has its switch at the end of the thread", () => {
  const shown = show("branch-empty");
  expect(shown.one("nav.branches").previousElementSibling?.getAttribute("role")).toBe("feed");
});

test("each turn that has ended can run again, and the conversation can be forked after it", async () => {
  const shown = show("branches");
  const [first, second] = shown.thread.turns;
  shown.press(buttons(shown, words.again)[1] as HTMLElement);
  await shown.settle();
  shown.press(buttons(shown, words.fork)[0] as HTMLElement);
  expect(shown.called).toEqual([
    ["runAgain", second],
    ["forkAfter", first, 1],
  ]);
  expect(buttons(show("running"), words.again)).toHaveLength(1);
});

test("a refusal to run a turn again is an alert at the turn", async () => {
  const shown = show("branches");
  shown.refusals.push("busy");
  shown.press(buttons(shown, words.again)[1] as HTMLElement);
  await shown.settle();
  expect(shown.one(".foot [role=alert]").textContent).not.toBe("");
});

test("a turn links to the forks that begin at it, whose titles are text", () => {
  const shown = show("forks");
  const links = shown.all(".forks a");
  expect(links.map((link) => [link.getAttribute("href"), link.querySelector("b")])).toEqual([
    ["/c/chat-fork", null],
    ["/c/chat-evil", null],
  ]);
  expect(links[1]?.textContent).toContain("<b>evil</b>");
  expect(links[1]?.textContent).not.toContain("\u202e");
  expect(links[0]?.closest("article")?.id).toBe(`turn-${shown.thread.turns[0]?.turnId}`);
  shown.press(links[0] as HTMLElement);
  expect(shown.called).toEqual([["openConversation", "chat-fork", ""]]);
});

test("the first line of a fork leads to the turn of its origin", () => {
  const shown = show("forks");
  const link = shown.one(".fork-of a");
  const turnId = shown.thread.turns[0]?.turnId ?? "";
  expect(link.getAttribute("href")).toBe(`/c/chat-origin/t/${turnId}`);
  shown.press(link);
  expect(shown.called).toEqual([["openConversation", "chat-origin", turnId]]);
  shown.draw({ earlier: "some" });
  expect(shown.all(".fork-of")).toEqual([]);
});
