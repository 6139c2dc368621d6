/** Selects the changes of a thread to announce. Pure. */

import type { Answer, Thread, Turn } from "../../thread/thread.ts";
import { inLine } from "../../words/en/shared.ts";
import { shell } from "../../words/en/shell.ts";
import { sayRefused } from "../limits/limit_codes.ts";
import type { Settings } from "../settings/settings.ts";
import type { News } from "./announcer.ts";

/** Return the announcements for the newest turn, given the thread before the change. */
export function newsOf(before: Thread, after: Thread, reading: Settings["reading"]): readonly News[] {
  if (before === after || before.conversation !== after.conversation) return [];
  const turn = after.turns.at(-1);
  const old = before.turns.find((known) => known.turnId === turn?.turnId);
  if (!turn || turn === old) return [];
  // A page of the past is not news.
  if (!old) return turn.outcome.is === "running" ? [passing(atWork(turn))] : [];
  return [...activityNews(old, turn), ...answerNews(old, turn, reading)];
}

/**
 * Return why the newest turn has just ended without an answer; "" once another one has begun; null if neither applies.
 */
export function failureOf(before: Thread, after: Thread): string | null {
  const turn = after.turns.at(-1);
  if (!turn || before === after || before.conversation !== after.conversation) return null;
  const known = before.turns.find((one) => one.turnId === turn.turnId);
  if (turn.outcome.is === "running") return known ? null : "";
  if (turn.outcome.is !== "error" || known?.outcome.is !== "running") return null;
  return sayRefused(turn.outcome.code, turn.outcome.message);
}

function atWork(turn: Turn): string {
  return turn.place > 0 ? inLine(turn.place) : shell.news.working;
}

function activityNews(old: Turn, turn: Turn): readonly News[] {
  if (turn.place !== old.place && turn.outcome.is === "running") return [passing(atWork(turn))];
  if (turn.approval && turn.approval !== old.approval) return [passing(shell.news.approval)];
  const round = turn.rounds.at(-1);
  const known = old.rounds.find((other) => other.iteration === round?.iteration && other.claim === round?.claim);
  if (!round || round === known || turn.outcome.is !== "running") return [];
  const runs = (calls: typeof round.calls | undefined) => calls?.some((call) => call.program?.state === "running");
  if (runs(round.calls) && !runs(known?.calls)) return [passing(shell.news.program)];
  const settled = round.notes.whole && round.notes.text !== "" && !known?.notes.whole;
  return settled ? [passing(round.notes.text)] : [];
}

function answerNews(old: Turn, turn: Turn, reading: Settings["reading"]): readonly News[] {
  const answer = turn.answers.at(-1);
  const known = old.answers.at(-1);
  const ended = turn.outcome.is !== "running" && old.outcome.is === "running";
  if (reading === "paragraph" && answer) return readParagraphs(known, answer, ended);
  if (!ended || turn.outcome.is !== "completed") return [];
  if (!answer?.text) return [passing(shell.news.ended)];
  const count = shell.news.answer(countWords(answer.text));
  return [reading === "complete" ? { text: `${count} ${answer.text}`, keeps: true } : passing(count)];
}

function readParagraphs(known: Answer | undefined, answer: Answer, ended: boolean): readonly News[] {
  const grows = known !== undefined && answer.text.startsWith(known.text);
  const from = grows ? wholeParagraphs(known.text) : 0;
  const to = ended ? answer.text.length : wholeParagraphs(answer.text);
  const text = answer.text.slice(from, to).trim();
  return text ? [{ text, keeps: true }] : [];
}

/** Return the offset after the last complete paragraph. */
function wholeParagraphs(text: string): number {
  const end = text.lastIndexOf("\n\n");
  return Math.max(end, 0);
}

function countWords(text: string): number {
  return text.split(/\s+/).filter(Boolean).length;
}

function passing(text: string): News {
  return { text, keeps: false };
}
