/** The page's implementation of the actions on the thread of one conversation. */

import type { OpenFile } from "../../preview/load.ts";
import { wholeReceiptOf } from "../../thread/whole_receipt.ts";
import type { Acts } from "../acts.ts";
import { FIELD } from "../composer/composer.tsx";
import type { Conversation } from "../store/conversation.ts";
import type { Page } from "../store/page.ts";
import { loadLater } from "./load_later.ts";

/** Return a function that creates links to files of a conversation. */
export function linkTo({ api }: Page, conversation: string): OpenFile {
  return (path, disposition) => api.createLink(conversation, { path, disposition });
}

export function makeActs(page: Page, conversation: Conversation): Acts {
  const { name } = conversation;
  return {
    send: (text) => conversation.say(text),
    steer: (text) => conversation.steer(text),
    stop: () => conversation.stop(),
    sendAgain: (message) => conversation.sendAgain(message),
    discard: (messageId) => conversation.discard(messageId),
    approve: (callId) => conversation.answer("approve", callId),
    deny: (callId, text) => conversation.answer("deny", callId, { text }),
    edit: (callId, params) => conversation.answer("edit", callId, { params }),
    rate: (turnId, reaction, text, onKept) => conversation.rate(turnId, reaction, text, onKept),
    openFile: (path) => page.go({ is: "thread", conversation: name, place: null, file: path }),
    loadPicture: (path, signal) =>
      import("../../preview/load.ts").then(
        ({ loadPicture }) => loadPicture(linkTo(page, name), path, signal),
        () => "",
      ),
    openTimeline: (turnId, iteration) =>
      page.go({ is: "timeline", conversation: name, turnId, iteration, view: "request", to: "" }),
    fillComposer: (text) => {
      conversation.composer.write(text);
      document.getElementById(FIELD)?.focus();
    },
    editMessage: (message, text) =>
      loadLater().then(({ editMessage }) => editMessage(page, conversation, message, text)),
    runAgain: (turn) => loadLater().then(({ runAgain }) => runAgain(page, conversation, turn)),
    forkAfter: (turn, number) =>
      void loadLater().then(({ askToFork }) => askToFork(page, name, { turnId: turn.turnId, number })),
    switchBranch: (point, by) =>
      void loadLater().then(({ switchBranch }) => switchBranch(page, conversation, point, by)),
    openConversation: (other, turnId = "") => {
      const place = turnId ? { turnId, iteration: null, callId: "" } : null;
      page.go({ is: "thread", conversation: other, place, file: "" });
    },
    loadEarlier: () => void conversation.loadEarlier(),
    readReceipt: async (turnId) => wholeReceiptOf({ ...(await page.api.getReceipts(name)) }, turnId),
  };
}
