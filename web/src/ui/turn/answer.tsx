/**
 * The answers of a turn: the last one as its text; on the rail, deferred ones as lines, and those that a redirect
 * interrupted.
 */

import { Markdown } from "../../markdown/index.ts";
import type { Answer, Message, Source, Turn } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";
import { placeOf } from "./cite_card.tsx";
import { useDesk, useOpen } from "./desk.ts";
import { Icon } from "./mark.tsx";
import { memo } from "./memo.tsx";

/** The sources of an answer as a list, for print. */
function Footnotes({ citations }: { citations: readonly Source[] }) {
  return (
    <ol class="footnotes" aria-label={say.footnotes}>
      {citations.map((source) => (
        <li key={source.sid} value={source.sid}>
          <bdi>{source.title}</bdi>, <bdi dir="ltr">{source.url || placeOf(source)}</bdi>
        </li>
      ))}
    </ol>
  );
}

export const FinalAnswer = memo(function FinalAnswer(props: {
  answer: Answer;
  /** 0 if it is the only one. */
  number: number;
  failed: boolean;
  citations: readonly Source[];
  unresolved: readonly number[];
}) {
  const { answer, number, failed, citations, unresolved } = props;
  const desk = useDesk();
  const growing = answer.state === "streaming" && !failed;
  return (
    <div class={`say ${growing ? "growing" : ""} ${failed ? "dimmed" : ""}`} dir="auto">
      {number > 0 && <p class="label">{say.answerOf(number)}</p>}
      <Markdown text={answer.text} growing={growing} context={growing ? desk.growing : desk.markdown} />
      {(answer.state === "cut" || (failed && answer.text)) && (
        <p class="aside">
          <span class="pill">{say.cutHere}</span>
        </p>
      )}
      {unresolved.length > 0 && <p class="aside">{say.unresolved(unresolved)}</p>}
      {citations.length > 0 && <Footnotes citations={citations} />}
    </div>
  );
});

/** The text of an answer that does not count. */
function Dimmed({ answer }: { answer: Answer }) {
  const desk = useDesk();
  return (
    <div class="say dimmed" dir="auto">
      <Markdown text={answer.text} growing={false} context={desk.markdown} />
    </div>
  );
}

/**
 * An answer that was deferred, because a message arrived that it had not read. It folds when the next answer begins.
 */
export const DeferredAnswer = memo(function DeferredAnswer(props: {
  answer: Answer;
  /** 0 if it is the only one. */
  number: number;
  turnId: string;
  /** The messages that it could not read, one a line. */
  unread: string;
  newest: boolean;
}) {
  const { answer, number, turnId, unread, newest } = props;
  const [open, setOpen] = useOpen(`${turnId}/answer/${answer.iteration}`, newest);
  return (
    <li class="round deferred">
      <span class="clock num" />
      <div class="body">
        <span class="node" aria-hidden="true">
          …
        </span>
        <button type="button" class="remark-line" aria-expanded={open} onClick={() => setOpen(!open)}>
          {number > 0 ? say.answerOf(number) : say.answer}, {say.beforeReading}{" "}
          {unread.split("\n").map((text) => (
            <q key={text} dir="auto">
              {text}
            </q>
          ))}
          <Icon of="chevron" />
        </button>
        {open && <Dimmed answer={answer} />}
      </div>
    </li>
  );
});

/** The text that a redirect interrupted, at the place where it appeared. */
export const ReplacedAnswer = memo(function ReplacedAnswer({ answer }: { answer: Answer }) {
  return (
    <li class="round deferred">
      <span class="clock num" />
      <div class="body">
        <span class="node" aria-hidden="true">
          …
        </span>
        <p class="aside">{say.replaced}</p>
        <Dimmed answer={answer} />
      </div>
    </li>
  );
});

export const oneLine = (messages: readonly Message[]): string =>
  messages.map((message) => message.text.replaceAll("\n", " ")).join("\n");

/** Return true for an interrupted answer after which the turn has continued. */
export function isReplaced(turn: Turn, answer: Answer): boolean {
  if (answer.state !== "cut") return false;
  if (answer !== turn.answers.at(-1)) return true;
  return turn.outcome.is === "running" && (turn.rounds.at(-1)?.iteration ?? 0) > answer.iteration;
}

/** Return the number of an answer among those that were not replaced, from 1; 0 if it is the only one. */
export function answerNumber(turn: Turn, answer: Answer): number {
  const others = turn.answers.filter((one) => !isReplaced(turn, one));
  return others.length > 1 ? others.indexOf(answer) + 1 : 0;
}

/** The last answer; null if there is none, or all were deferred or replaced. */
export function finalAnswer(turn: Turn): Answer | null {
  const last = turn.answers.at(-1);
  return last && last.state !== "deferred" && !isReplaced(turn, last) ? last : null;
}
