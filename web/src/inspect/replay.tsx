/** Replays of a round: its request once more with another model, effort or instructions, beside the recorded reply. */

import type { ComponentChildren } from "preact";
import { useEffect, useId, useMemo, useState } from "preact/hooks";
import type { Receipts, ReplayList, ReplayView, Reply, RequestView, WantedReplay } from "../api/index.ts";
import { words } from "../words/en/inspect.ts";
import { formatUsd } from "../words/format.ts";
import { refusalWords, Shown, useAnswer } from "./answer.tsx";
import { FoldedText } from "./bits.tsx";
import { ReplyPanel } from "./reply.tsx";
import type { Source } from "./source.ts";
import { oneLine, showHidden } from "./text.ts";
import { diffWords, nearChanges } from "./word_diff.ts";

const w = words.replay;

/** The pause between two readings of a running replay. */
const POLL_MS = 1_000;
const EFFORTS = ["low", "medium", "high", "xhigh", "max"] as const;

interface Recorded {
  readonly reply: Reply;
  /** The recorded instructions; null if this user may not see them. */
  readonly system: string | null;
  readonly usd: number | null;
  readonly list: ReplayList;
}

/** Replays of the round that batch `n` decided. */
export function ReplaysPanel({ source, n }: { readonly source: Source; readonly n: number }) {
  const answer = useAnswer(`replays ${n}`, () => readRecorded(source, n));
  return <Shown answer={answer}>{(recorded) => <Replays {...{ source, n, recorded }} />}</Shown>;
}

async function readRecorded(source: Source, n: number): Promise<Recorded> {
  const [reply, request, receipts, list] = await Promise.all([
    source.reply(n),
    source.request(n),
    source.receipts(),
    source.replays(n),
  ]);
  return { reply, system: systemOf(request), usd: priceOf(receipts, n), list };
}

function systemOf(request: RequestView): string | null {
  const pieces = request.parts.filter((part) => part.role === "system").flatMap((part) => part.pieces);
  return pieces.some((piece) => piece.hidden) ? null : pieces.map((piece) => piece.text).join("");
}

function priceOf(receipts: Receipts, n: number): number | null {
  const rounds = receipts.turns.flatMap((turn) => turn.rounds);
  return rounds.find((round) => round.decided_n === n)?.usd ?? null;
}

interface ReplaysProps {
  readonly source: Source;
  readonly n: number;
  readonly recorded: Recorded;
}

function Replays({ source, n, recorded }: ReplaysProps) {
  const [items, setItems] = useState(recorded.list.items);
  const [readings, setReadings] = useState(0);
  const [refused, setRefused] = useState<unknown>(null);
  const running = items.some((one) => one.state === "running");
  useEffect(() => {
    if (readings === 0 && !running) return;
    let gone = false;
    const read = async () => {
      try {
        const list = await source.replays(n);
        if (gone) return;
        setItems(list.items);
        setRefused(null);
        if (list.items.some((one) => one.state === "running")) setTimeout(again, POLL_MS);
      } catch (error) {
        if (!gone) setRefused(error);
      }
    };
    const again = () => !gone && setReadings((count) => count + 1);
    read();
    return () => {
      gone = true;
    };
  }, [source, n, readings]);
  const start = async (wish: WantedReplay) => {
    setRefused(null);
    try {
      await source.startReplay(wish);
      setReadings((count) => count + 1);
    } catch (error) {
      setRefused(error);
    }
  };
  return (
    <div class="replays">
      <Wish {...{ n, recorded, start }} />
      {refused !== null && (
        <p class="remark" role="alert">
          {w.refusals[(refused as { code?: string }).code ?? ""] ?? refusalWords(refused)}
        </p>
      )}
      <p class="remark" role="status">
        {running ? w.running : w.count(items.length)}
      </p>
      <div class="beside">
        <Column title={w.recorded}>
          <Price usd={recorded.usd} />
          <ReplyPanel reply={recorded.reply} of={w.recorded} />
        </Column>
        {items.map((one, at) => (
          <Column key={one.replay} title={nameOf(one, at)}>
            <Replayed replay={one} name={nameOf(one, at)} />
          </Column>
        ))}
      </div>
    </div>
  );
}

function nameOf(replay: ReplayView, at: number): string {
  const changes = [
    oneLine(replay.model),
    replay.effort && w.effortOf(replay.effort),
    replay.system && w.ownInstructions,
  ];
  return w.replayOf(at + 1, changes.filter(Boolean).join(" · ") || w.unchanged);
}

function Column({ title, children }: { readonly title: string; readonly children: ComponentChildren }) {
  return (
    <section class="replay" aria-label={title}>
      <h3 class="label">{title}</h3>
      {children}
    </section>
  );
}

function Price({ usd }: { readonly usd: number | null }) {
  return <p class="remark num">{usd === null ? w.unpriced : w.costs(formatUsd(usd))}</p>;
}

function Replayed({ replay, name }: { readonly replay: ReplayView; readonly name: string }) {
  if (replay.state === "failed") {
    const sentence = w.failures[replay.code] ?? oneLine(replay.message, 500);
    return <p class="remark">{w.failed(sentence, replay.code)}</p>;
  }
  if (replay.reply === null) {
    return (
      <div class="part" aria-busy="true">
        <p class="remark inline">{w.writes}</p>
        <FoldedText text={replay.text} />
      </div>
    );
  }
  return (
    <>
      <Price usd={replay.usd} />
      {!replay.equal && <p class="remark">{w.unequal}</p>}
      <ReplyPanel reply={{ ...replay.reply, first_ms: replay.first_ms }} of={name} />
    </>
  );
}

interface WishProps {
  readonly n: number;
  readonly recorded: Recorded;
  readonly start: (wish: WantedReplay) => Promise<void>;
}

/** What the replay changes; its instructions are compared with the recorded ones while they are written. */
function Wish({ n, recorded, start }: WishProps) {
  const id = useId();
  const before = recorded.system ?? "";
  const [model, setModel] = useState("");
  const [effort, setEffort] = useState<NonNullable<WantedReplay["effort"]>>("");
  const [system, setSystem] = useState(before);
  const [sending, setSending] = useState(false);
  const changed = system.trim() !== "" && system !== before;
  const send = async () => {
    if (sending) return;
    setSending(true);
    await start({ decided_n: n, model, effort, system: changed ? system : "" });
    setSending(false);
  };
  return (
    <form
      class="wish"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <p class="remark inline">{w.says}</p>
      <label class="other">
        {w.model}
        <select value={model} onChange={(event) => setModel(event.currentTarget.value)}>
          <option value="">{w.asConfigured}</option>
          {recorded.list.models.map((one) => (
            <option key={one} value={one}>
              {oneLine(one)}
            </option>
          ))}
        </select>
      </label>
      <label class="other">
        {w.effort}
        <select value={effort} onChange={(event) => setEffort(event.currentTarget.value as typeof effort)}>
          <option value="">{w.asConfigured}</option>
          {EFFORTS.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      </label>
      <details>
        <summary>{changed ? w.instructionsChanged : w.instructions}</summary>
        <label class="label" for={id}>
          {recorded.system === null ? w.instructionsHidden : w.instructionsOf}
        </label>
        <textarea
          id={id}
          rows={10}
          dir="auto"
          spellcheck={false}
          value={system}
          onInput={(event) => setSystem(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
            event.preventDefault();
            send();
          }}
        />
        {changed && recorded.system !== null && <Changes before={before} after={system} />}
      </details>
      <button type="submit" class="act" disabled={sending}>
        {w.start}
      </button>
    </form>
  );
}

function Changes({ before, after }: { readonly before: string; readonly after: string }) {
  const found = useMemo(() => nearChanges(diffWords(before, after)), [before, after]);
  return (
    <section aria-label={w.changes}>
      <pre class="changes" dir="auto">
        {found.map((one, at) =>
          one.is === "added" ? (
            <ins key={at}>{showHidden(one.text)}</ins>
          ) : one.is === "removed" ? (
            <del key={at}>{showHidden(one.text)}</del>
          ) : (
            showHidden(one.text)
          ),
        )}
      </pre>
    </section>
  );
}
