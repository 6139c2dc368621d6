/** Exports a conversation as a document. The Markdown has the visible text; the JSON has everything. */

import type { Thread, Turn } from "../../thread/thread.ts";
import { shell } from "../../words/en/shell.ts";
import { formatBytes } from "../../words/index.ts";

const { document: words } = shell;

/**
 * Return a thread as Markdown: prompts, the rounds' notes as lines, answers, sources and files. `branch` is the name of the
 * branch, "" without any.
 */
export function renderMarkdown(title: string, thread: Thread, branch: string): string {
  const parts = [`# ${inLine(title)}`, ...(branch ? [`*${branch}*`] : []), ...thread.turns.flatMap(renderTurn)];
  return `${parts.join("\n\n")}\n`;
}

function renderTurn(turn: Turn): readonly string[] {
  const notes = turn.rounds.map((round) => inLine(round.notes.text)).filter(Boolean);
  const answer = turn.answers.at(-1)?.text ?? "";
  return [
    `## ${turn.prompts.map((prompt) => inLine(prompt.text)).join(" / ")}`,
    `*${new Date(turn.startedAt).toISOString()}*`,
    ...(notes.length ? [notes.map((note, at) => `${at + 1}. ${note}`).join("\n")] : []),
    ...turn.messages.map((message) => quote(message.text)),
    ...(answer ? [answer] : []),
    ...(turn.outcome.is === "error" ? [`*${words.error(turn.outcome.code)}*`] : []),
    ...renderList(
      words.sources,
      turn.citations.map((source) => `${source.sid}. ${inLine(source.title)} <${source.url || source.path}>`),
    ),
    ...renderList(
      words.files,
      turn.files.map((file) => `- ${inLine(file.filename)} (${formatBytes(file.sizeBytes)})`),
    ),
  ];
}

function renderList(title: string, lines: readonly string[]): readonly string[] {
  return lines.length ? [`**${title}**`, lines.join("\n")] : [];
}

function quote(text: string): string {
  return text.replace(/^/gm, "> ");
}

function inLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

/** Download a text as a file. */
export function saveFile(name: string, mime: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: mime }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The browser has read the bytes by the next turn of its event loop.
  setTimeout(() => URL.revokeObjectURL(url), 0);
}
