/** The thread: a feed of turns that stays at its end while the user is there. */

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { countTurns, turnNumber } from "../../thread/select.ts";
import type { Message, Thread, Turn } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";
import type { Acts, Problem, Target, ThreadContext } from "../acts.ts";
import { loadLater } from "../app/load_later.ts";
import { useModule } from "../app/use_module.ts";
import { CiteCard } from "./cite_card.tsx";
import { callKey, Desk, DeskContext, roundKey, turnKey } from "./desk.ts";
import { Icon } from "./mark.tsx";
import { PendingTurn } from "./turn.tsx";
import { Loose, TurnGroup, useGroups } from "./turn_group.tsx";

export interface ThreadProps {
  thread: Thread;
  acts: Acts;
  context: ThreadContext;
}

const none: readonly Message[] = [];
const noProblems: ReadonlyMap<string, Problem> = new Map();

/** The desk of this thread: one object that always has the newest values. */
export function useDeskOf({ thread, acts, context }: ThreadProps): Desk {
  const desk = useRef<Desk | null>(null);
  desk.current ??= new Desk(thread, acts, context);
  desk.current.take(thread, acts, context);
  useLayoutEffect(() => desk.current?.notify(), [context.open]);
  return desk.current;
}

/** The position at which the user left the end: in the newest turn, with the height above it. */
interface Left {
  readonly turn: Turn | undefined;
  readonly weight: number;
}

const weightOf = (turn: Turn): number => turn.rounds.length + turn.answers.length + turn.messages.length;

function leave({ turns }: Thread): Left {
  const turn = turns.at(-1);
  return { turn, weight: turn ? weightOf(turn) : 0 };
}

/** Count what has arrived since: older turns that were loaded meanwhile, or the beginning of a cut one, are not new. */
export function countNew({ turns }: Thread, left: Left): number {
  const at = turns.findLastIndex((turn) => turn.turnId === left.turn?.turnId);
  const turn = turns[at];
  const grown = turn && turn.openedN === left.turn?.openedN ? Math.max(weightOf(turn) - left.weight, 0) : 0;
  return turns.slice(at + 1).reduce((sum, one) => sum + weightOf(one), grown);
}

const nearPx = 48;

/** Whether the user is at the end, and how much has arrived below since they left it. */
function useEnd(thread: Thread) {
  const scroller = useRef<HTMLDivElement>(null);
  const [left, setLeft] = useState<Left | null>(null);
  const onScroll = () => {
    const element = scroller.current;
    if (!element) return;
    // In a reversed column the end is at 0, and everything before it is negative.
    const away = Math.abs(element.scrollTop) > nearPx;
    setLeft((before) => (away ? (before ?? leave(thread)) : null));
  };
  const toEnd = () => scroller.current?.scrollTo({ top: 0 });
  return { scroller, onScroll, toEnd, below: left && countNew(thread, left) };
}

function placeOf(target: Target): string {
  const turn = `#${CSS.escape(`turn-${target.turnId}`)}`;
  if (target.callId) return `${turn} [data-call="${CSS.escape(target.callId)}"]`;
  if (target.iteration !== null) return `${turn} [data-round="${target.iteration + 1}"]`;
  return turn;
}

/** Open the target of the address, and scroll to it once it exists. */
function useTarget(desk: Desk, thread: Thread, target: Target | null): void {
  const done = useRef<Target | null>(null);
  const there = target !== null && thread.turns.some((turn) => turn.turnId === target.turnId);
  useEffect(() => {
    if (!target || !there || done.current === target) return;
    done.current = target;
    const { iteration, callId } = target;
    // The newest turn is open by itself, and folds when another begins, unless the address names a part of it.
    const newest = iteration === null && target.turnId === thread.turns.at(-1)?.turnId;
    desk.setOpen(turnKey(target.turnId), newest, true);
    const keys: string[] = [];
    if (iteration !== null) keys.push(roundKey(target.turnId, iteration));
    if (callId) keys.push(callKey(target.turnId, callId));
    for (const key of keys) desk.setOpen(key, false, true);
    // Items that were just opened appear with the next frame.
    requestAnimationFrame(() => {
      const place = document.querySelector(placeOf(target));
      place?.scrollIntoView({ block: "start" });
      place?.classList.add("aimed");
    });
  }, [target, there]);
}

function Earlier({ context, acts, turns }: { context: ThreadContext; acts: Acts; turns: number }) {
  const button = useRef<HTMLButtonElement>(null);
  const loading = context.earlier === "loading";
  useEffect(() => {
    if (!button.current || typeof IntersectionObserver === "undefined") return;
    const observer = new IntersectionObserver((seen) => {
      if (seen.some((entry) => entry.isIntersecting) && !loading) acts.loadEarlier();
    });
    observer.observe(button.current);
    return () => observer.disconnect();
  }, [loading]);
  return (
    <>
      <p class="earlier">
        <button type="button" class="act" ref={button} disabled={loading} onClick={() => acts.loadEarlier()}>
          {loading ? say.loadingEarlier : say.earlier(turns)}
        </button>
      </p>
      <p class="on-paper">{say.notPrinted(turns)}</p>
    </>
  );
}

/** Messages that are not in the log yet: the log's own message replaces them. */
function onItsWay(thread: Thread, outbox: readonly Message[]): readonly Message[] {
  if (outbox.length === 0) return none;
  const turn = thread.turns.at(-1);
  const known = new Set([...(turn?.prompts ?? []), ...(turn?.messages ?? []), ...thread.loose].map((m) => m.messageId));
  const left = outbox.filter((message) => !known.has(message.messageId));
  return left.length === outbox.length ? outbox : left;
}

export function ThreadView(props: ThreadProps) {
  const { thread, acts, context } = props;
  const desk = useDeskOf(props);
  const end = useEnd(thread);
  useTarget(desk, thread, context.target);
  const { turns } = thread;
  const groups = useGroups(turns);
  const last = turns.at(-1);
  const runs = last?.outcome.is === "running";
  const whole = context.earlier === "none";
  const outbox = onItsWay(thread, context.outbox);
  const later = useModule(loadLater);
  return (
    <DeskContext.Provider value={desk}>
      <div class="thread end" ref={end.scroller} onScroll={end.onScroll}>
        <div class="roll">
          {!whole && <Earlier context={context} acts={acts} turns={thread.turnsBefore} />}
          {later && <later.BranchName />}
          {later && whole && <later.OriginLink />}
          {turns.length + outbox.length + thread.loose.length > 0 && (
            <div role="feed" aria-label={say.conversation} aria-busy={runs}>
              {groups.map((group) => {
                const isLast = group.turns.at(-1) === last;
                return (
                  <TurnGroup
                    key={group.key}
                    group={group}
                    from={turns[group.at - 1]?.openedN ?? 0}
                    first={turnNumber(thread, group.at)}
                    size={countTurns(thread)}
                    loose={thread.loose}
                    discarded={context.discarded}
                    newest={isLast ? last : undefined}
                    outbox={isLast && runs ? outbox : none}
                    problems={isLast ? context.problems : noProblems}
                  />
                );
              })}
              <Loose
                messages={thread.loose.filter((message) => message.n >= (last?.openedN ?? 0))}
                discarded={context.discarded}
              />
              {!runs &&
                outbox.map((message) => (
                  <PendingTurn
                    key={message.messageId}
                    message={message}
                    problem={context.problems.get(message.messageId) ?? null}
                  />
                ))}
            </div>
          )}
          {later && outbox.length === 0 && <later.BranchPoints message={null} />}
        </div>
      </div>
      {end.below !== null && (
        <button type="button" class="below act" onClick={end.toEnd}>
          <Icon of="end" />
          {say.below(end.below)}
        </button>
      )}
      <CiteCard />
    </DeskContext.Provider>
  );
}
