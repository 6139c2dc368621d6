/**
 * The lines of a batch's entries, in the words of `stepline log`. Pure.
 *
 * Rounds count from 1 here, as everywhere on the screen. A field with its default value is not in the log.
 */

import { words } from "../words/en/inspect.ts";
import type { Batch, Entry } from "./log_book.ts";
import { oneLine } from "./text.ts";

const w = words.entries;

/** Return a batch's entries as lines: the first line of an entry names it, and its details follow. */
export function batchLines(batch: Batch): readonly string[] {
  return batch.entries.flatMap(entryLines).map((line) => line.trimEnd());
}

type Render = (entry: Entry) => readonly string[];

const text = (entry: Entry, name: string): string => String(entry[name] ?? "");
const number = (entry: Entry, name: string): number => Number(entry[name] ?? 0);
const list = (entry: Entry, name: string): readonly Entry[] => (entry[name] ?? []) as readonly Entry[];
const line = (entry: Entry, name: string): string => oneLine(text(entry, name));
const roundOf = (entry: Entry): number => number(entry, "iteration") + 1;

/** Return the total input tokens of an entry's usage. */
function promptTokens(usage: Entry): number {
  return (
    number(usage, "input_tokens") +
    number(usage, "cache_read_tokens") +
    number(usage, "cache_write_5m_tokens") +
    number(usage, "cache_write_1h_tokens")
  );
}

function inbound(entry: Entry): readonly string[] {
  const said = text(entry, "text") || (entry.payload ? JSON.stringify(entry.payload) : "");
  return [`${text(entry, "event")}: ${oneLine(said)}`];
}

function closed(entry: Entry): readonly string[] {
  const why = entry.code ? ` (${text(entry, "code")} ${line(entry, "message")})` : "";
  const usage = entry.usage as Entry | undefined;
  return [
    ...(entry.answer ? [w.answer(line(entry, "answer"))] : []),
    ...list(entry, "citations").map(citation),
    ...((entry.followups ?? []) as readonly string[]).map((followup) => `» ${oneLine(followup)}`),
    ...(usage
      ? [
          w.usage(
            number(entry, "rounds"),
            promptTokens(usage),
            number(usage, "cache_read_tokens"),
            number(usage, "output_tokens"),
          ),
        ]
      : []),
    `${w.turn(text(entry, "turn"))} ${text(entry, "outcome")}: ${text(entry, "reason")}${why}`,
  ];
}

function citation(source: Entry): string {
  const said = ["title", "url", "path"].map((name) => line(source, name)).filter(Boolean);
  return `[${line(source, "sid")}] ${said.join(" — ")}`;
}

function decided(entry: Entry): readonly string[] {
  const usage = entry.usage as Entry | undefined;
  const declined = entry.declined as Entry | undefined;
  let taken = entry.interrupted ? w.cutOff : entry.accepted === false ? w.rejected : "";
  if (declined) {
    const why = oneLine(`${text(declined, "category")} ${text(declined, "explanation")}`.trim());
    taken = w.declined(line(entry, "model"), why);
  }
  const skills = ((entry.show_skills ?? []) as readonly string[]).map((skill) => `sk:${skill}`);
  const staged = [...((entry.show_artifacts ?? []) as readonly string[]), ...skills];
  const tokens = usage ? w.tokens(promptTokens(usage), number(usage, "output_tokens")) : "";
  return [
    `${w.round(roundOf(entry))}: ${text(entry, "action")}${taken}${tokens}`,
    ...list(entry, "actions").map((action) => w.call(text(action, "call_id"), text(action, "tool_id"))),
    ...(staged.length > 0 ? [w.stages(oneLine(staged.join(" ")))] : []),
    ...list(entry, "notices").flatMap((notice) => noticeLines(notice, entry.accepted !== false)),
  ];
}

function noticeLines(notice: Entry, accepted: boolean): readonly string[] {
  const index = (notice.extra as Entry | undefined)?.index;
  const said = w.notice(text(notice, "code"), line(notice, "message"));
  return accepted && index ? [w.notRun(Number(index), line(notice, "code")), said] : [said];
}

function resulted(entry: Entry): readonly string[] {
  const error = entry.error as Entry | undefined;
  const failed = error ? ` ${text(error, "code")}` : "";
  const paths = list(entry, "blocks")
    .map((block) => text(block, "path"))
    .filter(Boolean);
  return [
    `${text(entry, "status")}${failed}: ${text(entry, "tool_id")} ${text(entry, "call_id")} ${oneLine(paths.join(" "))}`,
  ];
}

function compacted(entry: Entry): readonly string[] {
  const why = entry.reason ? ` (${text(entry, "reason")})` : "";
  return [w.compacted(`${text(entry, "status")}${why}`, number(entry, "before_tokens"), number(entry, "after_tokens"))];
}

function contributed(entry: Entry): readonly string[] {
  const ended = `${text(entry, "hook")} ${text(entry, "status") || "ok"} ${text(entry, "code")}`.trimEnd();
  return [
    ...(entry.hook ? [oneLine(ended)] : []),
    ...list(entry, "blocks").map((block) => w.contributed(`${line(block, "type")} ${line(block, "path")}`)),
  ];
}

function answered(entry: Entry): readonly string[] {
  const instead = entry.action as Entry | undefined;
  const other = instead ? w.runsInstead(text(instead, "call_id"), text(instead, "tool_id")) : "";
  const said = entry.text ? `: ${line(entry, "text")}` : "";
  const client = entry.client ? w.byClient(line(entry, "client")) : "";
  return [`${text(entry, "call_id")} ${text(entry, "verdict")}${client}${other}${said}`];
}

function reopened(entry: Entry): readonly string[] {
  const waits = entry.until ? w.waits(text(entry, "until"), text(entry, "code")) : w.attempt(number(entry, "attempt"));
  const failed = entry.usage ? w.failedAfter(promptTokens(entry.usage as Entry)) : "";
  return [oneLine(`${w.round(roundOf(entry))}: ${waits}${failed}`)];
}

function started(entry: Entry): readonly string[] {
  const task = entry.task as Entry | undefined;
  const until = task ? w.asTask(text(task, "until")) : "";
  return [`${until ? w.runs : w.aboutToRun} ${text(entry, "call_id")}${until}`];
}

function feedback(entry: Entry): readonly string[] {
  return [w.feedback(text(entry, "turn"), text(entry, "reaction") || w.none, line(entry, "text"))];
}

function listed(entry: Entry): readonly string[] {
  const failed = (entry.failed ?? []) as readonly string[];
  return [oneLine(w.listed(number(entry, "tools"), text(entry, "until"), failed.join(", ")))];
}

const RENDER: Readonly<Record<string, Render>> = {
  owner: (entry) => [w.owner(line(entry, "user"), text(entry, "bundle"))],
  in: inbound,
  opened: (entry) => [`${w.turn(text(entry, "turn"))} ${w.opened}`],
  closed,
  decision: decided,
  result: resulted,
  pruned: (entry) => [w.pruned(number(entry, "keep"), text(entry, "cause"))],
  compacting: (entry) => [w.compacting(number(entry, "before_tokens"), number(entry, "max_tokens"))],
  compacted,
  titled: (entry) => [w.titled(line(entry, "title"))],
  contributed,
  feedback,
  listed,
  approval_requested: (entry) => {
    const action = (entry.action ?? {}) as Entry;
    return [w.parked(text(action, "call_id"), text(action, "tool_id"), text(entry, "rule"))];
  },
  approval_answered: answered,
  reopened,
  started,
  deferred: (entry) => [w.deferred(roundOf(entry))],
  dropped: (entry) => [w.dropped(number(entry, "n"), text(entry, "reason"))],
  steered: (entry) => [w.steered(number(entry, "n"), number(entry, "finalize"))],
  forked: (entry) => [w.forked(line(entry, "origin"), number(entry, "n"))],
  takeover: (entry) => [w.takenOver(text(entry, "reason"), number(entry, "takeovers"))],
};

/** Return an entry as lines. An entry of a newer release is named by its kind. */
function entryLines(entry: Entry): readonly string[] {
  return (RENDER[entry.kind] ?? ((one: Entry) => [one.kind]))(entry);
}
