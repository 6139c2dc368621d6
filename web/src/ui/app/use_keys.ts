/** The keys of the whole page. */

import { useLayoutEffect } from "preact/hooks";
import { STOP } from "../composer/composer.tsx";
import { type KeyAct, keyAct, leaveKeysToInputMethod, takesText } from "../keys/keys.ts";
import { printAll } from "../menu/print.ts";
import { type Route, threadOf } from "../route.ts";
import { SEARCH } from "../search/search_field.tsx";
import type { Page } from "../store/page.ts";

/** The overlay, if one is open. */
export type Over = "none" | "list" | "margin" | "keys" | "limits";

/** Open dialogs and menus. */
const OPEN = "dialog[open], [popover]:popover-open";

export function useKeys(page: Page, over: Over, setOver: (over: Over) => void): void {
  useLayoutEffect(() => leaveKeysToInputMethod(document), []);
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (prints(event)) {
        printWhole(page, event);
        return;
      }
      const act = keyAct(event, takesText(document.activeElement), page.settings.value.letters);
      if (act === "none" || (act !== "escape" && document.querySelector(OPEN))) return;
      if (act === "escape") {
        closeOrStop(page, event);
        return;
      }
      event.preventDefault();
      perform(act, page, over, setOver);
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [page, over, setOver]);
}

const APPLE = /Mac|iPhone|iPad/.test(navigator.userAgent);

function prints({ key, ctrlKey, metaKey, altKey, shiftKey }: KeyboardEvent): boolean {
  const [command, other] = APPLE ? [metaKey, ctrlKey] : [ctrlKey, metaKey];
  return key === "p" && command && !other && !altKey && !shiftKey;
}

/** Load the remaining turns before the browser prints. If all are loaded, the browser prints directly. */
function printWhole(page: Page, event: KeyboardEvent): void {
  const conversation = page.current.value;
  if (page.route.value.is !== "thread" || conversation.store.value.earlier === "none") return;
  event.preventDefault();
  void printAll(conversation);
}

function perform(act: KeyAct, page: Page, over: Over, setOver: (over: Over) => void): void {
  switch (act) {
    case "search":
      focusSearch(page);
      break;
    case "new":
      page.begin();
      break;
    case "next":
      moveTurn(1);
      break;
    case "previous":
      moveTurn(-1);
      break;
    case "timeline":
      switchView(page);
      break;
    case "list":
    case "margin":
      setOver(over === act ? "none" : act);
      break;
    case "help":
      setOver("keys");
      break;
    case "plan":
    case "files":
    case "sources":
      showSection(act, setOver);
      break;
    default:
  }
}

/**
 * Close the open overlay. If there is none, focus Stop; if Stop has the focus, stop. Dialogs and menus close
 * themselves.
 */
function closeOrStop(page: Page, event: KeyboardEvent): void {
  if (document.querySelector(OPEN)) return;
  const route = page.route.value;
  const stop = document.getElementById(STOP);
  if (route.is === "thread" && route.file) page.closeTo(threadOf(route.conversation));
  else if (route.is === "search") page.closeSearch();
  else if (stop) {
    event.preventDefault();
    if (document.activeElement === stop) page.current.value.stop();
    else stop.focus();
  }
}

function focusSearch(page: Page): void {
  const field = document.getElementById(SEARCH);
  if (field) {
    field.focus();
    return;
  }
  // Without the column, the search page has the search field.
  page.go({ is: "search", query: "" });
  requestAnimationFrame(() => document.getElementById(SEARCH)?.focus());
}

/** Move the focus to the next or previous turn. */
function moveTurn(step: 1 | -1): void {
  const turns = [...document.querySelectorAll<HTMLElement>('.thread [id^="turn-"]')];
  const at = turns.findIndex((turn) => turn.contains(document.activeElement));
  const next = at < 0 ? turns.at(step > 0 ? 0 : -1) : turns[at + step];
  next?.focus({ preventScroll: true });
  next?.scrollIntoView({ block: "start" });
}

/** Open the timeline at the focused round, or the chat at the round that the timeline shows. */
function switchView(page: Page): void {
  const route = page.route.value;
  const conversation = page.current.value;
  if (route.is === "timeline") {
    const place = { turnId: route.turnId, iteration: route.iteration, callId: "" };
    page.go({ ...(threadOf(route.conversation) as Route & { is: "thread" }), place });
    return;
  }
  const turns = conversation.store.value.thread.turns;
  const focused = document.activeElement?.closest<HTMLElement>("[data-turn]");
  const turn = turns.find((one) => one.turnId === focused?.dataset.turn) ?? turns.at(-1);
  if (!turn || !page.mayInspect) return;
  const round = Number(focused?.dataset.round ?? 0);
  const iteration = round > 0 ? round - 1 : (turn.rounds.at(-1)?.iteration ?? 0);
  const { name } = conversation;
  page.go({ is: "timeline", conversation: name, turnId: turn.turnId, iteration, view: "request", to: "" });
}

/** Focus a section of the margin. If the margin is not a column, open it first. */
function showSection(section: "plan" | "files" | "sources", setOver: (over: Over) => void): void {
  const find = () => document.querySelector<HTMLElement>(`.margin [data-part="${section}"]`);
  if (!document.querySelector(".margin")) setOver("margin");
  requestAnimationFrame(() => find()?.focus());
}
