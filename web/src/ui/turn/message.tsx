/** A message of a person or a service: the heading of a turn, or a line on its rail. */

import { useState } from "preact/hooks";
import { visible } from "../../markdown/index.ts";
import type { Message, Turn } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";
import { formatMs } from "../../words/format.ts";
import { wordsOf } from "../../words/index.ts";
import type { Problem } from "../acts.ts";
import { loadLater } from "../app/load_later.ts";
import { useModule } from "../app/use_module.ts";
import { LIMIT_CODES } from "../limits/limit_codes.ts";
import { useSelector } from "../store/store.ts";
import { useDesk } from "./desk.ts";
import { FileList } from "./file_list.tsx";
import { Icon, Mark } from "./mark.tsx";
import { memo } from "./memo.tsx";

function Origin({ message }: { message: Message }) {
  const { kind, source } = message;
  const spoken = kind === "prompt" || kind === "followup" || kind === "steer";
  if (spoken && !source) return null;
  return (
    <span class="origin">
      {!spoken && <span class="pill">{visible(kind)}</span>}
      {source && <bdi class="num">{say.by(visible(source))}</bdi>}
    </span>
  );
}

function Attachments({ message: { attachments } }: { message: Message }) {
  return <FileList label={say.attachments(attachments.length)} files={attachments} icon="clip" />;
}

/** Why a message was not accepted: the page retries automatically, or the user decides. */
export function MessageProblem({ message, problem }: { message: Message; problem: Problem }) {
  const { acts } = useDesk();
  const sentence = wordsOf(problem.code, problem.message);
  if (problem.trying) {
    return <p class="aside">{LIMIT_CODES.has(problem.code) ? `${sentence} ${say.notSentYet}` : say.notSent}</p>;
  }
  const copy = () => void navigator.clipboard?.writeText(`${problem.code}: ${problem.message || sentence}`);
  return (
    <div class="trouble">
      <p>
        <Mark shape="failed" tone="bad" word={say.state.error} />
        <span>
          {problem.message || sentence} <code dir="ltr">{problem.code}</code>
        </span>
      </p>
      <div class="ask-acts">
        <button type="button" class="act" onClick={() => acts.sendAgain(message)}>
          {say.sendAgain}
        </button>
        <button type="button" class="act" onClick={() => acts.discard(message.messageId)}>
          {say.discard}
        </button>
        <button type="button" class="act" onClick={copy}>
          {say.copyDetails}
        </button>
      </div>
    </div>
  );
}

/** Return the text of a message that is being edited, null if it is not. */
function useEdited({ messageId }: Message): string | null {
  const { context } = useDesk();
  const edit = useSelector(context.edits, (edits) => edits.get(messageId));
  return edit?.open ? edit.text : null;
}

function Editing(props: { message: Message; text: string }) {
  const later = useModule(loadLater);
  return later && <later.EditField {...props} />;
}

function Tools({ message }: { message: Message }) {
  const later = useModule(loadLater);
  return later && <later.MessageTools message={message} />;
}

const headingChars = 280;

/** The heading of a turn. A long one is smaller and shows its beginning. */
export const Prompt = memo(function Prompt(props: { message: Message; sending: boolean; problem: Problem | null }) {
  const { message, sending, problem } = props;
  const [all, setAll] = useState(false);
  const edited = useEdited(message);
  const long = message.text.length > headingChars || message.text.split("\n").length > 6;
  return (
    <div class="prompt">
      {edited === null ? (
        <h2 class={`said ${long ? "long" : ""} ${long && !all ? "cut" : ""}`} dir="auto">
          {message.text || visible(message.kind)}
        </h2>
      ) : (
        <Editing message={message} text={edited} />
      )}
      {long && edited === null && (
        <button type="button" class="longer" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? say.showLess : say.showAll}
        </button>
      )}
      <Origin message={message} />
      <Attachments message={message} />
      {sending && !problem && (
        <p class="sending aside">
          <Icon of="clock" />
          {say.sending}
        </p>
      )}
      {problem && <MessageProblem message={message} problem={problem} />}
      {edited === null && <Tools message={message} />}
    </div>
  );
});

/** Return the text for a message's state. `next` is the number of the round that begins next. */
function stateText(message: Message, running: boolean, goesOn: boolean, next: number): string {
  const { state } = message;
  const steers = message.kind === "steer";
  if (state.is === "waiting") {
    if (!running) return say.kept;
    return steers ? say.interrupting : say.waitsFor(next);
  }
  if (state.is === "read") return say.readIn(state.iteration + 1);
  if (state.is === "heeded") {
    const did = say.heeded[state.phase];
    if (!running) return did;
    if (goesOn) return `${did}; ${say.goesOn}`;
    return state.finalizeRounds > 0 ? `${did}; ${say.answerWithin(state.finalizeRounds)}` : say.stopping;
  }
  return state.is === "dropped" ? "" : say.kept;
}

/** A message that the model never read, with its text and its actions. */
export function HandBack({ message, reason, offered }: { message: Message; reason: string; offered: boolean }) {
  const { acts } = useDesk();
  return (
    <div class={`handback ${offered ? "" : "gone"}`}>
      <p class="note" dir="auto">
        {message.text}
      </p>
      <p class="aside">{say.dropped[reason] ?? say.handedBack}</p>
      {offered && (
        <div class="ask-acts">
          <button type="button" class="act" onClick={() => acts.sendAgain(message)}>
            {say.sendNow}
          </button>
          <button type="button" class="act" onClick={() => acts.discard(message.messageId)}>
            {say.discard}
          </button>
        </div>
      )}
    </div>
  );
}

/** A message that arrived while a turn ran, as a line on its rail. */
export const MessageLine = memo(function MessageLine(props: {
  message: Message;
  turnStartedAt: number | null;
  running: boolean;
  goesOn: boolean;
  next: number;
  offered: boolean;
  problem: Problem | null;
}) {
  const { message, turnStartedAt, running } = props;
  const { state } = message;
  const edited = useEdited(message);
  const onItsWay = message.n === 0;
  const open = onItsWay || state.is === "waiting";
  const pill =
    onItsWay && message.kind !== "steer" ? say.sending : stateText(message, running, props.goesOn, props.next);
  return (
    <li class={`round ${open ? "wait" : "heard"} ${state.is === "dropped" ? "dropped" : ""}`}>
      <span class="clock num">{turnStartedAt === null ? "" : formatSince(message.at - turnStartedAt)}</span>
      <div class="body">
        <span class="node" aria-hidden="true">
          {message.kind === "steer" ? "↪" : "+"}
        </span>
        {state.is === "dropped" ? (
          <HandBack message={message} reason={state.reason} offered={props.offered} />
        ) : edited !== null ? (
          <Editing message={message} text={edited} />
        ) : (
          <div class="line">
            <span class="note" dir="auto">
              {message.text || visible(message.kind)}
              <Origin message={message} />
            </span>
            <span class={`pill ${state.is === "heeded" && running ? "live" : ""}`}>
              {onItsWay && <Icon of="clock" />}
              {pill}
            </span>
          </div>
        )}
        <Attachments message={message} />
        {props.problem && <MessageProblem message={message} problem={props.problem} />}
        {state.is !== "dropped" && edited === null && <Tools message={message} />}
      </div>
    </li>
  );
});

/** The time since a turn began, for its clock column: `0.0 s`, `14.0 s`, `2 min 05 s`. */
export function formatSince(ms: number): string {
  const since = Math.max(ms, 0);
  return since < 1000 ? `${(Math.floor(since / 100) / 10).toFixed(1)} s` : formatMs(since);
}

/** The messages for which an answer was deferred: they arrived before it was stored, and it had not read them. */
export function unreadBy(turn: Turn, iteration: number): readonly Message[] {
  return turn.messages.filter((message) => {
    if (message.kind === "steer" || message.after > iteration + 1) return false;
    if (message.state.is === "read") return message.state.iteration === iteration + 1;
    return message.state.is === "waiting";
  });
}
