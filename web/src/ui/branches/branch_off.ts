/**
 * Makes a branch: forks a conversation before a message or a turn, and sends the new messages there.
 *
 * The user is asked first if a tool with an effect was called since, or if a turn still runs.
 */

import { visible } from "../../markdown/index.ts";
import { messagesAgain } from "../../thread/branches.ts";
import type { Attachment, Message, Turn } from "../../thread/thread.ts";
import { branchWords as words } from "../../words/en/branches.ts";
import { FIELD } from "../composer/composer.tsx";
import type { Question } from "../erase/question.ts";
import { threadOf } from "../route.ts";
import type { Conversation } from "../store/conversation.ts";
import type { Page } from "../store/page.ts";
import { branchesOf, takeBranches } from "./tree.ts";

/** The branch begins before this message or turn, with these messages. */
interface Start {
  readonly kind: "message" | "turn";
  readonly at: string;
  /** The batch of its first message. */
  readonly n: number;
  readonly says: readonly { readonly text: string; readonly files: readonly Attachment[] }[];
  readonly done: () => void;
}

type Effects = Awaited<ReturnType<Page["api"]["listEffects"]>>;

/** The names of branches that were requested: a repeated request finds the same branch. */
const asked = new WeakMap<Conversation, Map<string, string>>();

/** Send another text instead of a message. Resolves to "" when it is sent or the user is asked, else to a code. */
export function editMessage(page: Page, conversation: Conversation, message: Message, text: string): Promise<string> {
  const { messageId, n, attachments } = message;
  const done = () => {
    const edits = new Map(conversation.edits.value);
    edits.delete(messageId);
    conversation.edits.set(edits);
  };
  return begin(page, conversation, { kind: "message", at: messageId, n, says: [{ text, files: attachments }], done });
}

/** Send the messages of a turn again. Resolves as `editMessage` does. */
export function runAgain(page: Page, conversation: Conversation, turn: Turn): Promise<string> {
  const says = messagesAgain(turn).map(({ text, attachments }) => ({ text, files: attachments }));
  const n = Math.min(...turn.prompts.map((message) => message.n));
  return begin(page, conversation, { kind: "turn", at: turn.turnId, n, says, done: () => undefined });
}

async function begin(page: Page, conversation: Conversation, start: Start): Promise<string> {
  try {
    // No call is between the batch before a message and that of the message, which always exists.
    const effects = await page.api.listEffects(conversation.name, { kind: "batch", at: String(start.n) });
    const run = () => perform(page, conversation, start);
    const question = questionOf(effects, conversation, run);
    if (question) page.question.set(question);
    else await run();
    return "";
  } catch (error) {
    return (error as { code?: string }).code ?? "internal";
  }
}

/** Return the question before a branch, null if nothing was done since and nothing runs. */
function questionOf(effects: Effects, conversation: Conversation, run: () => Promise<void>): Question | null {
  const { running } = conversation.store.value;
  const { items, more } = effects;
  if (!running && items.length === 0) return null;
  const list = items.map((item) => {
    const call = `${visible(item.tool)}${item.title ? `: ${visible(item.title)}` : ""}`;
    return item.status === "ok" ? call : `${call} (${words.doneStatus[item.status]})`;
  });
  const stopFirst = async () => {
    conversation.stop();
    await run();
  };
  return {
    title: items.length > 0 ? words.doneTitle : words.runsTitle,
    text: [...(items.length > 0 ? [words.doneText] : []), ...(running ? [words.runsText] : [])].join(" "),
    list: more ? [...list, words.doneMore] : list,
    act: running ? words.runOn : words.goOn,
    word: "",
    calm: true,
    busy: words.busy,
    failed: words.failed,
    run,
    ...(running && { other: { act: words.stop, run: stopFirst } }),
  };
}

async function perform(page: Page, conversation: Conversation, start: Start): Promise<void> {
  const { kind, at, says, done } = start;
  const names = asked.get(conversation) ?? new Map<string, string>();
  asked.set(conversation, names);
  const name = names.get(at) ?? page.nameNew();
  names.set(at, name);
  const made = await page.api.makeFork(conversation.name, {
    conversation: name,
    point: { kind, at, before: true },
    branch: true,
  });
  const branch = page.prepare(name);
  await branch.load();
  const { phase } = branch.store.value;
  if (phase !== "ready") throw Object.assign(new Error("the branch cannot be read"), { code: "api_unreachable" });
  const now = conversation.serverClock.nowMs();
  const { origin, n, title } = made;
  const row = { conversation: name, origin, n, title, begunAt: now, lastActivityAt: now };
  takeBranches(page, branch, [...branchesOf(conversation).filter((one) => one.conversation !== name), row]);
  for (const { text, files } of says) branch.say(text, [], files);
  names.delete(at);
  done();
  const byKeys = document.activeElement?.matches(":focus-visible");
  page.go(threadOf(name));
  if (byKeys) requestAnimationFrame(() => document.getElementById(FIELD)?.focus());
}
