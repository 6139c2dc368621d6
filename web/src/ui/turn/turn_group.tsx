/**
 * Turns in groups of twenty: a delta renders only the last group again, and the browser skips a group that is out of
 * sight.
 */

import { useRef } from "preact/hooks";
import type { Message, Turn } from "../../thread/thread.ts";
import { say } from "../../words/en/thread.ts";
import type { Problem } from "../acts.ts";
import { memo } from "./memo.tsx";
import { MessageLine } from "./message.tsx";
import { TurnView } from "./turn.tsx";

const GROUP = 20;

interface Group {
  readonly key: number;
  readonly turns: readonly Turn[];
  /** The index of its first turn in the thread. */
  readonly at: number;
}

/**
 * Return the turns in groups. A group stays the same object while nothing in it changes, even if turns are added before
 * or after it.
 */
export function useGroups(turns: readonly Turn[]): readonly Group[] {
  const anchor = useRef("");
  const known = useRef(new Map<number, Group>());
  const found = turns.findIndex((turn) => turn.turnId === anchor.current);
  if (found < 0) anchor.current = turns[0]?.turnId ?? "";
  const origin = Math.max(found, 0);
  const groups = new Map<number, Group>();
  for (let at = 0; at < turns.length; ) {
    const key = Math.floor((at - origin) / GROUP);
    const end = Math.min((key + 1) * GROUP + origin, turns.length);
    const next = { key, at, turns: turns.slice(at, end) };
    const before = known.current.get(key);
    groups.set(key, before && isSame(before, next) ? before : next);
    at = end;
  }
  known.current = groups;
  return [...groups.values()];
}

function isSame(one: Group, other: Group): boolean {
  return (
    one.at === other.at &&
    one.turns.length === other.turns.length &&
    one.turns.every((turn, i) => turn === other.turns[i])
  );
}

interface LooseProps {
  readonly messages: readonly Message[];
  readonly discarded: ReadonlySet<string>;
}

/** Messages outside any turn, as lines: kept for the next one, or handed back. */
export function Loose({ messages, discarded }: LooseProps) {
  if (messages.length === 0) return null;
  return (
    <article class="turn loose" aria-label={say.outside}>
      <ol class="rounds">
        {messages.map((message) => (
          <MessageLine
            key={message.messageId || message.n}
            message={message}
            turnStartedAt={null}
            running={false}
            goesOn={false}
            next={1}
            offered={!discarded.has(message.messageId)}
            problem={null}
          />
        ))}
      </ol>
    </article>
  );
}

interface Props {
  readonly group: Group;
  /** The opening batch of the turn before it, 0 without one. */
  readonly from: number;
  /** The number of its first turn, and of all turns in the conversation. */
  readonly first: number;
  readonly size: number;
  readonly loose: readonly Message[];
  readonly discarded: ReadonlySet<string>;
  readonly newest: Turn | undefined;
  /** Messages that are not in the log yet, with their state: those of the newest turn. */
  readonly outbox: readonly Message[];
  readonly problems: ReadonlyMap<string, Problem>;
}

const noMessages: readonly Message[] = [];
const noProblems: ReadonlyMap<string, Problem> = new Map();

export const TurnGroup = memo(function TurnGroup(props: Props) {
  const { group, from, first, size, loose, discarded, newest, outbox, problems } = props;
  return (
    <div class="turns">
      {group.turns.flatMap((turn, i) => {
        const since = group.turns[i - 1]?.openedN ?? from;
        return [
          <Loose
            key={`loose-${turn.turnId}`}
            messages={loose.filter((message) => message.n >= since && message.n < turn.openedN)}
            discarded={discarded}
          />,
          <TurnView
            key={turn.turnId}
            turn={turn}
            newest={turn === newest}
            number={first + i}
            size={size}
            outbox={turn === newest ? outbox : noMessages}
            problems={turn === newest ? problems : noProblems}
            discarded={discarded}
          />,
        ];
      })}
    </div>
  );
});
