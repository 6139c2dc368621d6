/** One turn: its prompts, its rounds and the messages between them, its answers, its end. */

import { useState } from "preact/hooks";
import { visible } from "../../markdown/index.ts";
import { traceScale } from "../../thread/select.ts";
import type { Message, Outcome, Receipt, Round, Turn } from "../../thread/thread.ts";
import { NO_RECEIPT } from "../../thread/turns.ts";
import { say } from "../../words/en/thread.ts";
import { formatMs, formatTime } from "../../words/format.ts";
import { wordsOf } from "../../words/index.ts";
import type { Problem } from "../acts.ts";
import { loadLater } from "../app/load_later.ts";
import { useModule } from "../app/use_module.ts";
import { LIMIT_CODES, sayLimit } from "../limits/limit_codes.ts";
import {
  answerNumber,
  DeferredAnswer,
  FinalAnswer,
  finalAnswer,
  isReplaced,
  oneLine,
  ReplacedAnswer,
} from "./answer.tsx";
import { LongText } from "./bits.tsx";
import { turnKey, useDesk, useNow, useOpen } from "./desk.ts";
import { Feedback } from "./feedback.tsx";
import { MadeFiles } from "./file_list.tsx";
import { Icon, Mark } from "./mark.tsx";
import { memo } from "./memo.tsx";
import { MessageLine, Prompt, unreadBy } from "./message.tsx";
import { Compactions } from "./notice.tsx";
import type { ReceiptProps } from "./receipt.tsx";
import { receiptLine } from "./receipt_line.ts";
import { failed, RoundView } from "./round.tsx";
import { UnitsTip } from "./units.tsx";

export interface TurnProps {
  turn: Turn;
  /** It is the last turn. */
  newest: boolean;
  /** Its number in the conversation, from 1. */
  number: number;
  /** The number of turns in the conversation. */
  size: number;
  /** Messages to this turn that are not in the log yet. */
  outbox: readonly Message[];
  problems: ReadonlyMap<string, Problem>;
  discarded: ReadonlySet<string>;
}

/** How a turn ended, in a word, if not normally. */
function reasonOf({ outcome }: Turn): string {
  return outcome.is === "completed" ? (say.reasons[outcome.reason] ?? "") : "";
}

function FoldLine({ turn, open, setOpen }: { turn: Turn; open: boolean; setOpen: (to: boolean) => void }) {
  const tools = turn.rounds.reduce((sum, round) => sum + round.calls.length, 0);
  const broken = turn.rounds.reduce((sum, round) => sum + Number(failed(round)), 0);
  const toolsMs = turn.receipt?.parts.find(({ is }) => is === "tools")?.ms ?? 0;
  return (
    <div class="fold">
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon of="chevron" />
        <span>
          {say.rounds(turn.rounds.length)}
          {tools > 0 && `, ${say.tools(tools)}`}
          {broken > 0 && `, ${say.failedRounds(broken)}`}
        </span>
        {toolsMs > 0 && <span class="num">{say.inTools(formatMs(toolsMs))}</span>}
      </button>
    </div>
  );
}

interface RailProps extends TurnProps {
  running: boolean;
}

/** The lines of messages before round `at`, or, after the last round, all remaining ones. */
function MessagesAt({ turn, at, running, discarded }: RailProps & { at: number }) {
  const last = at === turn.rounds.length;
  const decided = turn.rounds.filter((round) => round.decidedAt !== null).length;
  const here = turn.messages.filter((message) => message.after === at || (last && message.after > at));
  return (
    <>
      {here.map((message) => (
        <MessageLine
          key={message.messageId || message.n}
          message={message}
          turnStartedAt={turn.startedAt}
          running={running}
          goesOn={turn.ending === null}
          // The round after it, unless that has decided without it.
          next={Math.max(message.after, decided) + 1}
          offered={!discarded.has(message.messageId)}
          problem={null}
        />
      ))}
    </>
  );
}

/** The answers of a round that are not the turn's. */
function AnswersAt({ turn, round }: { turn: Turn; round: Round }) {
  return (
    <>
      {turn.answers.map((answer, at) => {
        if (answer.iteration !== round.iteration) return null;
        if (isReplaced(turn, answer)) return <ReplacedAnswer key={at} answer={answer} />;
        if (answer.state !== "deferred") return null;
        return (
          <DeferredAnswer
            key={at}
            answer={answer}
            number={answerNumber(turn, answer)}
            turnId={turn.turnId}
            unread={oneLine(unreadBy(turn, round.iteration))}
            newest={at === turn.answers.length - 1}
          />
        );
      })}
    </>
  );
}

function Rail(props: RailProps) {
  const { turn, running, outbox, problems } = props;
  const scaleMs = traceScale(turn, useNow(running));
  return (
    <ol class="rounds">
      {turn.rounds.flatMap((round, at) => {
        const key = `${round.iteration}/${at}`;
        return [
          <MessagesAt key={`m${key}`} {...props} at={at} />,
          <Compactions key={`c${key}`} round={round} compactions={turn.compactions} />,
          <RoundView
            key={`r${key}`}
            round={round}
            turnId={turn.turnId}
            turnStartedAt={turn.startedAt}
            scaleMs={scaleMs}
            live={running && at === turn.rounds.length - 1}
            place={turn.place}
            answering={turn.answers.some((answer) => answer.iteration === round.iteration)}
            compactions={turn.compactions}
          />,
          <AnswersAt key={`d${key}`} turn={turn} round={round} />,
        ];
      })}
      <MessagesAt {...props} at={turn.rounds.length} />
      {outbox.map((message) => (
        <MessageLine
          key={message.messageId}
          message={message}
          turnStartedAt={turn.startedAt}
          running={running}
          goesOn={false}
          next={turn.rounds.length + 1}
          offered={false}
          problem={problems.get(message.messageId) ?? null}
        />
      ))}
    </ol>
  );
}

const againCodes: ReadonlySet<string> = new Set([
  "model_overloaded",
  "model_rate_limited",
  "step_timeout",
  "step_failed",
  "execution_lost",
]);

/** Why a turn ended without an answer, what the user can do, and when. */
function Broken(props: { turn: Turn; outcome: Extract<Outcome, { is: "error" }>; discarded: ReadonlySet<string> }) {
  const { turn, outcome, discarded } = props;
  const { acts } = useDesk();
  const from = (turn.endedAt ?? turn.startedAt) + outcome.retryAfterS * 1000;
  const [over, setOver] = useState(false);
  const limited = LIMIT_CODES.has(outcome.code);
  const now = useNow(!over && outcome.retryAfterS > 0);
  // A limit may be raised before its time: show it to the user, but do not block them.
  const left = limited ? 0 : Math.ceil((from - now) / 1000);
  if (from <= now && !over) setOver(true);
  const again = outcome.retryable || limited || againCodes.has(outcome.code);
  // A message that was sent again offers no further retry: a second click would send it twice.
  const prompts = turn.prompts.filter((message) => !discarded.has(message.messageId));
  const sendAgain = () => {
    for (const message of prompts) acts.sendAgain(message);
  };
  return (
    <div class="trouble broken">
      <p>
        <Mark shape="failed" tone="bad" word={say.brokeOff} />
        <span>
          {limited ? sayLimit(outcome.code, outcome.message, from, now) : wordsOf(outcome.code, outcome.message)}{" "}
          <code dir="ltr">{outcome.code}</code>
        </span>
      </p>
      {outcome.code === "context_limit" && <p class="aside">{say.newConversation}</p>}
      {again && prompts.length > 0 && (
        <div class="ask-acts">
          <button type="button" class="act" disabled={left > 0} onClick={sendAgain}>
            {left > 0 ? say.sendAgainIn(formatMs(left * 1000)) : say.sendAgain}
          </button>
        </div>
      )}
    </div>
  );
}

function Copy({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  // A browser may refuse it: then nothing says "copied".
  const copy = () =>
    void navigator.clipboard?.writeText(text).then(
      () => setCopied(true),
      () => setCopied(false),
    );
  return (
    <>
      <button type="button" class="tool" aria-label={say.copy} onClick={copy}>
        <Icon of="copy" />
      </button>
      <span class="feedback-said" aria-live="polite">
        {copied && say.copied}
      </span>
    </>
  );
}

/** The receipt of a turn without a summary: the time that it took. */
function receiptOf(turn: Turn): Receipt {
  return (
    turn.receipt ?? {
      ...NO_RECEIPT,
      elapsedMs: (turn.endedAt ?? turn.startedAt) - turn.startedAt,
      rounds: turn.rounds.length,
    }
  );
}

function OpenReceipt(props: ReceiptProps) {
  const later = useModule(loadLater);
  return later && <later.ReceiptTable {...props} />;
}

function Foot({ turn, number }: { turn: Turn; number: number }) {
  const later = useModule(loadLater);
  const [open, setOpen] = useOpen(`${turn.turnId}/receipt`, false);
  const { outcome } = turn;
  const answer = finalAnswer(turn);
  const receipt = receiptOf(turn);
  const reason = reasonOf(turn);
  return (
    <>
      {outcome.is === "completed" && outcome.message && (
        <p class="end-words aside" dir="auto">
          {outcome.message}
        </p>
      )}
      <div class="foot">
        <Feedback turnId={turn.turnId} given={turn.feedback} />
        {answer?.text && <Copy text={answer.text} />}
        {later && <later.TurnTools turn={turn} number={number} />}
        {reason && <span class="pill">{reason}</span>}
        <button type="button" class="num receipt-line" aria-expanded={open} onClick={() => setOpen(!open)}>
          {receiptLine(receipt)}
        </button>
        {receipt.usage && <UnitsTip />}
      </div>
      {later && <later.ForkLinks turnId={turn.turnId} />}
      {open && <OpenReceipt label={say.turn(number)} turnId={turn.turnId} receipt={receipt} rounds={turn.rounds} />}
    </>
  );
}

/** The value of an agent with a result type: formatted JSON, as text. */
function ResultValue({ value }: { value: unknown }) {
  return (
    <section aria-label={say.resultValue}>
      <LongText text={JSON.stringify(value, null, 2)} lines={24} chars={4000} />
    </section>
  );
}

function Chips({ followups }: { followups: readonly string[] }) {
  const { acts } = useDesk();
  return (
    <section class="chips" aria-label={say.followups}>
      {followups.map((text) => (
        <button
          key={text}
          type="button"
          class="chip"
          dir="auto"
          title={say.chipHint}
          onClick={(event) => (event.shiftKey ? acts.send(text) : acts.fillComposer(text))}
        >
          {text}
        </button>
      ))}
    </section>
  );
}

export const TurnView = memo(function TurnView(props: TurnProps) {
  const { turn, newest, number, size, problems } = props;
  const running = turn.outcome.is === "running";
  const [open, setOpen] = useOpen(turnKey(turn.turnId), newest || running);
  const name = say.turn(number);
  const answer = finalAnswer(turn);
  const folds = !newest && !running && turn.rounds.length > 0;
  return (
    <article
      class={`turn ${running ? "running" : ""}`}
      id={`turn-${turn.turnId}`}
      tabIndex={-1}
      aria-label={running ? `${name}, ${say.running}` : name}
      aria-busy={running}
      aria-posinset={number}
      aria-setsize={size}
    >
      <span class="clock num">{formatTime(turn.startedAt)}</span>
      <div class="prompts">
        {turn.prompts.map((message) => (
          <Prompt
            key={message.messageId || message.n}
            message={message}
            sending={message.n === 0}
            problem={problems.get(message.messageId) ?? null}
          />
        ))}
        {turn.prompts.length === 0 && <h2 class="said gist">{say.saidEarlier}</h2>}
      </div>
      {folds && <FoldLine turn={turn} open={open} setOpen={setOpen} />}
      {(open || !folds) && <Rail {...props} running={running} />}
      {answer?.text && (
        <FinalAnswer
          answer={answer}
          number={answerNumber(turn, answer)}
          failed={turn.outcome.is === "error"}
          citations={turn.citations}
          unresolved={turn.unresolvedSids}
        />
      )}
      {turn.outcome.is === "completed" && turn.outcome.value !== undefined && (
        <ResultValue value={turn.outcome.value} />
      )}
      {!running && turn.files.length > 0 && <MadeFiles files={turn.files} answer={answer?.text ?? ""} />}
      {turn.outcome.is === "error" && <Broken turn={turn} outcome={turn.outcome} discarded={props.discarded} />}
      {!running && <Foot turn={turn} number={number} />}
      {newest && !running && turn.followups.length > 0 && <Chips followups={turn.followups} />}
    </article>
  );
});

/** A message that opens a turn, before the log has it. */
export const PendingTurn = memo(function PendingTurn(props: { message: Message; problem: Problem | null }) {
  const { message, problem } = props;
  return (
    <article class="turn pending" aria-label={visible(message.text.slice(0, 80))} aria-busy={problem === null}>
      <span class="clock num">{formatTime(message.at)}</span>
      <div class="prompts">
        <Prompt message={message} sending={message.n === 0} problem={problem} />
      </div>
    </article>
  );
});
